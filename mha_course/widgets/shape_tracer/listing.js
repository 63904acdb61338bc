// Shows a step's code, with its line marked.

import { make } from "../dom.js";

/** Return a line of code, its remark marked; what is wrapped stays to the right of where it begins. */
function makeCode(line) {
  const indent = line.search(/\S|$/);
  const [, code, remark] = /^([^#]*)(.*)$/.exec(line.slice(indent));
  const row = make("code", "", code, make("span", "remark", remark));
  row.style.paddingLeft = `calc(${indent}ch + 1.6em)`;
  return row;
}

/** Return how many letters the longest line of code has. */
export const lettersOf = ({ steps, sources }) =>
  Math.max(
    ...steps.map(({ line }) => line.length),
    ...sources.flatMap(({ code }) => code.split("\n").map(({ length }) => length)),
  );

/** Return a pane, and how to mark a step in it; `go` is called with the first step of a line that is clicked. */
export function listing({ steps, sources }, go) {
  const pane = make("div", "code");
  const firsts = new Map();
  steps.forEach(({ source, lineno }, i) => {
    const key = `${source}:${lineno}`;
    if (!firsts.has(key)) firsts.set(key, i);
  });
  let shown = null; // what is in the pane: a source, or the line of a step that has none
  let marked = null; // the line of the step that is shown

  function makeLine(text, number, source) {
    const line = make("div", "line", make("span", "number", `${number}`), makeCode(text));
    const first = firsts.get(`${source}:${number}`);
    line.classList.toggle("ran", first !== undefined);
    if (first !== undefined) line.addEventListener("click", () => go(first));
    return line;
  }

  function mark({ source, line, lineno }) {
    const { name, first, code } = sources[source] ?? { name: "line", first: lineno, code: line };
    const key = source ?? `line ${line}`;
    if (key !== shown) {
      const lines = code.split("\n").map((text, i) => makeLine(text, first + i, source));
      const list = make("div", { className: "lines", tabIndex: 0 }, ...lines); // so that it can be scrolled with keys
      Object.assign(list, { role: "region", ariaLabel: `Code of ${name}` });
      pane.replaceChildren(make("div", "heading", name), list);
      shown = key;
    }
    marked?.classList.remove("current");
    marked = pane.lastChild.children[lineno - first];
    marked?.classList.add("current");
  }

  /** Return where to scroll to, so that the marked line is seen, or null. */
  function scrollTarget() {
    if (!marked) return null;
    const { scrollTop, clientHeight } = pane.lastChild;
    const { offsetTop: top, offsetHeight: height } = marked;
    const visible = top >= scrollTop + 20 && top + height <= scrollTop + clientHeight - 20;
    return visible ? null : top - clientHeight / 3;
  }
  return { pane, mark, scrollTarget };
}
