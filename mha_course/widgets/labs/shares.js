// Rows with a name, a few numbers, and a bar that is cut into shares of one whole.

import { apart, make, setAttributes, visible } from "../dom.js";
import { figure, wide } from "./bars.js";
import { pale } from "./matrix.js";

const TAKEN = 0.56; // of the width, by the bars; as in lab.css

const wordsOf = ({ name, value }) => `${apart(name)} ${figure(value)}`;

/** Make one part of a bar, with as many words as it has room for. */
function makePart(part, room) {
  const fits = [wordsOf(part), apart(part.name)].find((words) => wide([words], 40) <= part.value * room);
  const node = make("span", "part", fits ?? "");
  node.title = wordsOf(part);
  Object.assign(node.style, {
    width: `${100 * part.value}%`,
    background: part.color,
    color: pale(part.color) ? "#000" : "#fff",
  });
  return node;
}

/** Make a bar; `mark` is a share that the first part once had, or is to have. */
function makeBar({ parts, mark }, room) {
  const bar = make("div", "shares-bar", ...parts.map((part) => makePart(part, room)));
  setAttributes(bar, { role: "img", "aria-label": parts.map(wordsOf).join(", ") });
  if (mark === null) return [bar];
  const line = make("div", "shares-mark");
  Object.assign(line.style, { width: `${100 * mark}%`, background: parts[0].color });
  return [bar, line];
}

function makeCell(tag, scope, ...content) {
  const cell = make(tag, "", ...content);
  if (scope) cell.scope = scope;
  return cell;
}

export function shares(panel, { width }) {
  const heads = panel.columns.map((words) => makeCell("th", "col", visible(words)));
  const rows = panel.rows.map(() => make("tr"));
  const node = make("table", "shares-table", ...(heads.length ? [make("tr", "", ...heads)] : []), ...rows);
  function update(now) {
    now.rows.forEach((row, i) => {
      const numbers = row.numbers.map((number) => makeCell("td", "", figure(number)));
      const bar = makeCell("td", "", ...makeBar(row, TAKEN * width));
      rows[i].replaceChildren(makeCell("th", "row", visible(row.name)), ...numbers, bar);
    });
  }
  update(panel);
  return { node, update };
}
