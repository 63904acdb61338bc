import assert from "node:assert/strict";
import { test } from "node:test";

import { index, spans } from "../../../mha_course/widgets/layout_player/boxes.js";
import { bytesOf, cutWarning } from "../../../mha_course/widgets/shape_tracer/facts.js";
import { cutsOf } from "../../../mha_course/widgets/shape_tracer/flow.js";
import { describe, drawn, layout, tokens } from "../../../mha_course/widgets/shape_tracer/tensor.js";

const range = (count) => Array.from({ length: count }, (_, i) => i);

test("indices and spans", () => {
  assert.deepEqual([index("3", 1), index("?", 4), index("1", 0), index("H", 2)], ["k", "4", "0", "H = 2"]);
  assert.equal(spans([3, 1, 0, 2, 1], "t"), "t0–t3");
  assert.equal(spans([5, 0, 1, null], "h"), "h0 h1 h5");
  assert.equal(spans([], "h"), "");
});

// ---- drawings of tensors ----

const formOf = (axes, sizes) => [axes, sizes, axes.map(() => ["#123456"])];

test("a tensor is described by its axes and sizes", () => {
  assert.equal(describe(formOf(["B", "S", "3"], [2, 5, 3])), "B 2, S 5, 3");
  assert.equal(describe(formOf([], [])), "one number");
});

test("every copy of the sheet is drawn, or the first ones and the last", () => {
  const sheets = (sizes) => layout(sizes, 1).sheets;
  assert.equal(sheets([4, 5]).length, 1);
  assert.equal(sheets([2, 3, 4, 5]).length, 6);
  const many = sheets([100, 4, 5]);
  assert.ok(many.length < 10);
  assert.deepEqual(many.at(-1).index, [99]);
  assert.equal(layout([100, 4, 5], 1).dots.length, 1);
  assert.deepEqual(sheets([0, 4, 5]), []);
});

test("a longer axis is drawn longer, and never as more cells than it has", () => {
  const width = (columns) => layout([3, columns], 1).sheet[0];
  for (const columns of [1, 2, 4, 8, 64, 300]) assert.ok(width(2 * columns) > width(columns));
  for (const columns of [1, 5, 4096]) assert.ok(drawn(columns, 150) <= columns && drawn(columns, 150) <= 43);
});

test("a number belongs to the token of its row, before a reshape and after it", () => {
  const form = formOf(["B", "S", "C"], [2, 3, 8]);
  const own = tokens(form);
  assert.deepEqual([own.number, own.own], [3, 1]);
  for (const [b, s, c] of [
    [0, 0, 0],
    [1, 2, 7],
    [1, 0, 5],
  ])
    assert.equal(own.of([b, s, c]), s);
  const wrong = tokens(formOf(["B", "?", "?", "?"], [2, 2, 3, 4]), form); // view(B, H, S, D): tokens are mixed
  for (const i of range(48)) {
    const place = [Math.floor(i / 24), Math.floor(i / 12) % 2, Math.floor(i / 4) % 3, i % 4];
    assert.equal(wrong.of(place), Math.floor(i / 8) % 3);
  }
  assert.equal(tokens(formOf(["C", "D"], [8, 8])), null);
});

// ---- the tracer's words ----

test("sizes in memory", () => {
  assert.deepEqual([1, 999, 1000, 2.5e6, 3e9, 4e15].map(bytesOf), [
    "1 byte",
    "999 bytes",
    "1.0 KB",
    "2.5 MB",
    "3.0 GB",
    "4000.0 TB",
  ]);
});

test("a warning is cut into its id and what happened", () => {
  assert.deepEqual(cutWarning("mixed-tokens: tokens: mixed"), { id: "mixed-tokens", text: "Tokens: mixed" });
  assert.deepEqual(cutWarning("ValueError (line-3): no\nway"), { id: "ValueError (line-3)", text: "No\nway" });
  assert.deepEqual(cutWarning("it stopped: here"), { id: "", text: "It stopped: here" });
});

test("a reshape cuts the wider of two rows", () => {
  const [wide, narrow] = [formOf(["S", "C"], [3, 8]), formOf(["S", "H", "D"], [3, 2, 4])];
  assert.deepEqual(cutsOf(true, wide, narrow), { ofInput: 4, ofResult: undefined });
  assert.deepEqual(cutsOf(true, narrow, wide), { ofInput: undefined, ofResult: 4 });
  assert.deepEqual(cutsOf(true, narrow, narrow), { ofInput: undefined, ofResult: undefined });
  assert.deepEqual(cutsOf(false, wide, narrow), { ofInput: undefined, ofResult: undefined });
});
