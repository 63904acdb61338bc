// Shows the code that a step comes from, its line marked.

import { make } from "../dom.js";

/** Return a line of code, its remark marked; what is wrapped stays to the right of where it begins. */
function makeCode(line) {
  const indent = line.search(/\S|$/);
  const [, code, remark] = /^([^#]*)(.*)$/.exec(line.slice(indent));
  const row = make("code", "", code, make("span", "remark", remark));
  row.style.paddingLeft = `calc(${indent}ch + 1.6em)`;
  return row;
}

/** Return a pane, and how to mark a step in it; `go` is called with the first step of a line that is clicked. */
export function listing({ steps, sources }, go) {
  const pane = make("div", "code");
  const firsts = new Map();
  steps.forEach(({ source, lineno }, i) => {
    const key = `${source}:${lineno}`;
    if (!firsts.has(key)) firsts.set(key, i);
  });
  let shown = null;
  let marked = null; // the line of the step that is shown

  function light(step) {
    const alone = step.source === null;
    const source = alone
      ? { name: "line", first: step.lineno, code: step.line }
      : sources[step.source];
    const key = alone ? `line ${step.line}` : step.source;
    if (key !== shown) {
      const rows = source.code.split("\n").map((line, i) => {
        const target = firsts.get(`${step.source}:${source.first + i}`);
        const row = make(
          "div",
          "line",
          make("span", "number", `${source.first + i}`),
          makeCode(line),
        );
        row.classList.toggle("ran", target !== undefined);
        if (target !== undefined) row.addEventListener("click", () => go(target));
        return row;
      });
      const list = make("div", "lines", ...rows);
      list.tabIndex = 0; // so that it can be scrolled with keys
      Object.assign(list, { role: "region", ariaLabel: `Code of ${source.name}` });
      pane.replaceChildren(make("div", "heading", source.name), list);
      shown = key;
    }
    marked?.classList.remove("current");
    marked = pane.lastChild.children[step.lineno - source.first];
    marked?.classList.add("current");
  }

  /** Return where to scroll to, so that the marked line is seen, or null. */
  function away() {
    const [list, top, size] = [pane.lastChild, marked?.offsetTop, marked?.offsetHeight];
    const seen =
      !marked ||
      (top >= list.scrollTop + 20 && top + size <= list.scrollTop + list.clientHeight - 20);
    return seen ? null : top - list.clientHeight / 3;
  }
  return { pane, light, away };
}
