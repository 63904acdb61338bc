// A tensor as cells: outer axes are boxes in boxes, the last two are rows and columns.

import { make } from "../dom.js";

/** Write an index with its axis. */
export const index = (axis, i) =>
  axis === "3" ? "qkv"[i] : axis === "?" || axis === "1" ? `${i}` : `${axis} = ${i}`;

/** Write numbers with their letter, neighbours as a span: t0–t3. */
export function spans(numbers, letter) {
  const runs = [];
  for (const n of [...new Set(numbers)].filter((n) => n != null).sort((a, b) => a - b)) {
    if (runs.at(-1)?.at(-1) === n - 1) runs.at(-1).push(n);
    else runs.push([n]);
  }
  const written = (run) => run.map((n) => letter + n).join(" ");
  const span = (run) => `${letter}${run[0]}–${letter}${run.at(-1)}`;
  return runs.map((run) => (run.length < 3 ? written(run) : span(run))).join(" ");
}

/** Put cells, which are nodes, into rows and columns, with the names of the axes and indices around them. */
function makeMatrix({ shape, axes, colors }, cells) {
  const last = shape.length - 1;
  const rows = shape[last - 1] ?? 1;
  const columns = shape[last] ?? 1;
  const matrix = make("div", "matrix");
  matrix.style.gridTemplateColumns = `auto auto repeat(${columns}, var(--unit))`;
  matrix.style.gridTemplateRows = `auto auto repeat(${rows}, auto)`;
  const put = (node, area) => {
    node.style.gridArea = area;
    matrix.append(node);
  };
  const putBar = (axis, name, area) => {
    const words = axes[axis] === "?" ? `${shape[axis]}` : axes[axis];
    const bar = make("div", `mark bar ${name}`, make("span", "", words));
    bar.style.background = colors[axis];
    put(bar, area);
  };
  if (last >= 0) {
    putBar(last, "", "1 / 3 / 2 / -1");
    for (let i = 0; i < columns; i++) put(make("div", "mark ordinal", `${i}`), `2 / ${i + 3}`);
  }
  if (last > 0) {
    putBar(last - 1, "side", "3 / 1 / -1 / 2");
    for (let i = 0; i < rows; i++) put(make("div", "mark ordinal", `${i}`), `${i + 3} / 2`);
  }
  cells.forEach((cell, i) => put(cell, `${Math.floor(i / columns) + 3} / ${(i % columns) + 3}`));
  return matrix;
}

/** Say which heads of which tokens are in a head's box, and warn if they do not belong there. */
function makeContents(cells, owners) {
  const all = (role) => cells.map((cell) => owners[cell.dataset.id][role]);
  const words = `${spans(all("head"), "h")} of ${spans(all("token"), "t")}`;
  const odd = cells.some((cell) => cell.matches(".odd"));
  return make("em", odd ? "odd" : "", odd ? `⚠ ${words}` : words);
}

/** Put the cells of a frame into boxes; `owners` says whose each number is. */
export function makeBoxes(frame, owners, cells, level = 0) {
  if (level >= frame.shape.length - 2) return makeMatrix(frame, cells);
  const axis = frame.axes[level];
  const color = frame.colors[level];
  const size = cells.length / frame.shape[level];
  const boxes = Array.from({ length: frame.shape[level] }, (_, i) => {
    const inside = cells.slice(i * size, (i + 1) * size);
    const title = make("span", "", index(axis, i));
    title.style.background = color;
    const name = make("div", "mark name", title);
    if (axis === "H") name.append(makeContents(inside, owners));
    const box = make("div", "box", name, makeBoxes(frame, owners, inside, level + 1));
    box.style.borderColor = color;
    return box;
  });
  return make("div", "boxes", ...boxes);
}
