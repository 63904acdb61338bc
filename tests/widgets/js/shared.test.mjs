import assert from "node:assert/strict";
import { test } from "node:test";

import { isolateWord, bytesOf, number, short, visible } from "../../../mha_course/widgets/dom.js";

test("a long word is cut between characters as people see them", () => {
  assert.equal(short("attention", 14), "attention");
  assert.equal(short("attention", 6), "atten…");
  assert.equal(short("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 2), "👩‍👩‍👧…");
  assert.equal(short("w".repeat(1e6), 5), "wwww…");
});

test("what cannot be seen in a word is shown, and what turns its direction goes", () => {
  assert.equal(short("a\nb\tc"), "a⏎b⇥c");
  assert.equal(short(""), "(empty)");
  assert.equal(short(" "), "␣");
  assert.ok(!/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/.test(short("\u202eevil\u0007\u2066")));
  assert.equal(short(7), "7");
});

test("a text from people stays in one line and turns nothing around", () => {
  assert.equal(visible("a\r\nb\u2028c\td\u202ee\u200f\u0000\u0085"), "a⏎b⏎c⇥d�e��⏎");
  assert.equal(isolateWord("cat"), "cat");
  assert.equal(isolateWord("שלום\u202e"), "\u2068שלום�\u2069");
  assert.equal(isolateWord("w".repeat(5000)), `${"w".repeat(23)}…`);
});

test("numbers are written for people", () => {
  const few = [0, 0.001, -0.001, 0.456, -12.34, 123456, NaN, Infinity, -Infinity].map((value) => number(value));
  assert.deepEqual(few, ["0", "0.00", "0.00", "0.46", "−12.34", "1.23e+5", "NaN", "∞", "−∞"]);
  assert.deepEqual([0.5, -0.5, 0].map((value) => number(value, true)), ["+0.50", "−0.50", "0"]); // prettier-ignore
  assert.equal(number(2.34, false, 1), "2.3");
});

test("bytes come in any form, from any place", () => {
  const { buffer } = Uint8Array.of(9, 1, 2);
  for (const form of [Uint8Array.of(1, 2), new DataView(buffer, 1), Uint8Array.of(1, 2).buffer])
    assert.deepEqual([...bytesOf(form)], [1, 2]);
});
