// Shows the code that a step comes from, its line lit.

import { make } from "../dom.js";

const PYTHON =
  "and as assert class def elif else False for from if import in is lambda None not or raise return True while with";
const TEXT = `"""[^]*?"""|'''[^]*?'''|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'`;
const TOKENS = new RegExp(`(${TEXT})|(#.*)|\\b(${PYTHON.replaceAll(" ", "|")})\\b`, "g");

/** Cut code into lines; its texts, remarks and words of the language are marked. */
function coloured(text) {
  const rows = [make("code", "")];
  const put = (piece, kind) =>
    piece.split("\n").forEach((part, i) => {
      if (i) rows.push(make("code", ""));
      rows.at(-1).append(kind ? make("span", kind, part) : part);
    });
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    put(text.slice(end, found.index));
    put(found[0], found[1] ? "text" : found[2] ? "remark" : "word");
    end = found.index + found[0].length;
  }
  put(text.slice(end));
  for (const row of rows) {
    const [start, indent] = [row.firstChild, row.textContent.search(/\S|$/)];
    start.textContent = start.textContent.slice(indent); // so that what is wrapped stays to the right of it
    row.style.paddingLeft = `calc(${indent}ch + 1.6em)`;
  }
  return rows;
}

/** Return a pane, and how to light a step in it; `go` is called with the first step of a line that is clicked. */
export function listing({ steps, sources }, go) {
  const pane = make("div", "code");
  const firsts = new Map();
  steps.forEach(({ source, lineno }, i) => {
    const key = `${source}:${lineno}`;
    if (!firsts.has(key)) firsts.set(key, i);
  });
  let [shown, lit] = [null, null];

  function light(step) {
    const alone = step.source === null;
    const source = alone ? { name: "line", first: step.lineno, code: step.line } : sources[step.source];
    const key = alone ? `line ${step.line}` : step.source;
    if (key !== shown) {
      const rows = coloured(source.code).map((text, i) => {
        const target = firsts.get(`${step.source}:${source.first + i}`);
        const row = make("div", "line", make("span", "number", `${source.first + i}`), text);
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
    lit?.classList.remove("lit");
    lit = pane.lastChild.children[step.lineno - source.first];
    lit?.classList.add("lit");
  }

  /** Return where to scroll to, so that the lit line is seen, or null. */
  function away() {
    const [list, top, size] = [pane.lastChild, lit?.offsetTop, lit?.offsetHeight];
    const seen = !lit || (top >= list.scrollTop + 20 && top + size <= list.scrollTop + list.clientHeight - 20);
    return seen ? null : top - list.clientHeight / 3;
  }
  return { pane, light, away };
}
