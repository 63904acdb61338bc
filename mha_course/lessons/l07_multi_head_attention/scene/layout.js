// Where the heads' parts are: in one block, or with one head unfolded between the others, or on the way there.

import { clamp } from "../../../widgets/dom.js";

export const indices = (count) => Array.from({ length: count }, (_, i) => i);

export const mix = (from, to, share) => from + (to - from) * share;

export const mixBox = (from, to, share) =>
  Object.fromEntries(["x", "y", "w", "h"].map((key) => [key, mix(from[key], to[key], share)]));

/** Return the progress of a motion between these fractions of its stage, slow at both ends. */
export function ease(fraction, begin, end) {
  const t = clamp((fraction - begin) / (end - begin), 0, 1);
  return t * t * (3 - 2 * t);
}

/** Return the box of a head's part of a matrix while one head is followed; a matrix without parts is shared. */
export function boxOf(part, head, followed, unfolded = 1) {
  const band = part.bands > 1 ? head : 0;
  const box = part.boxes[followed][band];
  return { ...box, ...mixBox(part.whole[band], box, unfolded) };
}

/** Return the row of a word in a box, which is a column where the matrix is transposed. */
export function rowOf({ transposed, boxes }, { x, y, w, h }, row) {
  const { rows, columns } = boxes[0][0];
  if (transposed) return { x: x + (row * w) / columns, y, w: w / columns, h };
  return { x, y: y + (row * h) / rows, w, h: h / rows };
}

/** Return one number of the row of a word in a box. */
export function cellOf(part, box, row, column) {
  const { x, y, w, h } = rowOf(part, box, row);
  const { rows, columns } = part.boxes[0][0];
  if (part.transposed) return { x, y: y + (column * h) / rows, w, h: h / rows };
  return { x: x + (column * w) / columns, y, w: w / columns, h };
}
