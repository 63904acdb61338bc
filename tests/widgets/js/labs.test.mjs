import assert from "node:assert/strict";
import { test } from "node:test";

import { figure } from "../../../mha_course/widgets/labs/bars.js";
import { neighbour, shade } from "../../../mha_course/widgets/matrix.js";
import { scaleOf } from "../../../mha_course/widgets/labs/plane.js";
import { pathOf } from "../../../mha_course/widgets/labs/panels.js";

test("numbers have two decimals, and what rounds to 0 no sign", () => {
  assert.deepEqual([0.125, -0.004, -0.006, 3, null].map(figure), ["0.13", "0.00", "-0.01", "3.00", "NaN"]);
});

test("arrow keys lead to the neighbours of a cell, and not out of the matrix", () => {
  const sizes = { T: 4, S: 6 };
  const from = (row, column, key) => neighbour(key, { row, column }, sizes);
  assert.deepEqual(from(2, 3, "ArrowUp"), { row: 1, column: 3 });
  assert.deepEqual(from(2, 3, "ArrowLeft"), { row: 2, column: 2 });
  assert.deepEqual(from(2, 3, "Home"), { row: 2, column: 0 });
  assert.deepEqual(from(2, 3, "End"), { row: 2, column: 5 });
  assert.deepEqual(from(3, 5, "ArrowDown"), { row: 3, column: 5 });
  assert.equal(from(2, 3, "toString"), null);
});

test("colours go from one end of a palette to the other, and no further", () => {
  const palette = [0xff000000, 0xff808080, 0xffffffff];
  const colourOf = (value, low, high) => shade(value, { palette, low, high });
  const colours = [-9, 0, 0.5, 1, 9, -Infinity].map((value) => palette.indexOf(colourOf(value, 0, 1)));
  assert.deepEqual(colours, [0, 0, 1, 2, 2, 0]);
  assert.equal(colourOf(4, 4, 4), palette[0]); // a scale without length
  assert.equal(palette.includes(colourOf(NaN, 0, 1)), false);
});

test("a line breaks off where a number is missing", () => {
  assert.equal(pathOf([[0, 1], [1, 2], null, [3, 4]]), "M0 1L1 2M3 4");
  assert.equal(pathOf([null, [1, 2]]), "M1 2");
});

test("a point of the plane comes back from its pixels, and ends at the edge", () => {
  const { pixels, point } = scaleOf(400, 3.4);
  for (const at of [[0, 0], [1, -2], [-3.4, 3.4], [0.25, 1.37]]) assert.deepEqual(point(pixels(at)), at); // prettier-ignore
  assert.deepEqual(pixels([0, 3.4]), [200, 0]); // up is up
  assert.deepEqual(point([900, -50]), [3.4, 3.4]);
});
