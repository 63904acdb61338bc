// Tables of text, and of bars divided into parts of one whole.

import { isolateWord, inkOn, make, setAttributes, short, visible } from "../dom.js";
import { measuring } from "../matrix.js";
import { figure } from "./bars.js";
import { pageFont } from "./matrix.js";

/** Return the ink for a colour such as #1f6fc4. */
const inkOf = (color) => inkOn([1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));

// fractions of the width for bars and margins, as in lab.css
const TAKEN = 0.56;
const FREE = 14;
const BESIDE = 12; // pixels next to the words of a part

/** Return a panel whose picture is made from nothing whenever its numbers change: for the few nodes that it has. */
export const afresh = (draw) => (panel, tools) => {
  const node = make("div");
  const update = (now) => node.replaceChildren(draw(now, tools));
  update(panel);
  return { node, update };
};

const makeHead = (words, scope) => Object.assign(make("th", "", visible(words)), { scope });

/** Make a table; the first of each row names it, and a cell is a list of nodes and words. */
function makeTable(name, head, rows) {
  const titles = head.map((words) => (words ? makeHead(words, "col") : make("td")));
  const body = rows.map(([words, ...cells]) => {
    const rest = cells.map((cell) => make("td", "", ...cell));
    return make("tr", "", makeHead(words, "row"), ...rest);
  });
  if (head.some(Boolean)) body.unshift(make("tr", "", ...titles));
  return make("table", name, ...body);
}

export const table = afresh(({ head, rows, most_rows: most }) => {
  const cells = rows.map(([name, ...words]) => [name, ...words.map((word) => [visible(word)])]);
  const node = makeTable("", head, cells);
  for (let i = rows.length; i < most; i++)
    node.append(make("tr", "spare", make("td", "", "\u00a0"))); // as high as a line of words
  return node;
});

/** Make one part of a bar, with as many words as it has room for. */
function makePart(part, words, room) {
  const widthOf = measuring(`12px ${pageFont()}`);
  const fits = [words, isolateWord(part.name)].find(
    (text) => widthOf(short(text, 40)) + BESIDE <= part.value * room,
  );
  const node = make("span", "part", fits ?? "");
  node.title = words;
  Object.assign(node.style, {
    width: `${100 * part.value}%`,
    background: part.color,
    color: inkOf(part.color),
  });
  return node;
}

/** Make a bar; `mark` is a share that the first part once had, or is to have. */
function makeBar({ parts, mark }, room) {
  const wordsOf = ({ name, value }) => `${isolateWord(name)} ${figure(value)}`;
  const bar = make(
    "div",
    "shares-bar",
    ...parts.map((part) => makePart(part, wordsOf(part), room)),
  );
  setAttributes(bar, { role: "img", "aria-label": parts.map(wordsOf).join(", ") });
  if (mark === null) return [bar];
  const line = make("div", "shares-mark");
  Object.assign(line.style, { width: `${100 * mark}%`, background: parts[0].color });
  return [bar, line];
}

export const shares = afresh(({ columns, rows }, { width }) => {
  const cells = rows.map((row) => [
    row.name,
    ...row.numbers.map((number) => [figure(number)]),
    makeBar(row, TAKEN * width - FREE),
  ]);
  return makeTable("shares-table", columns, cells);
});
