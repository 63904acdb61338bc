import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { isolateWord, bytesOf, number, short, visible } from "../../../mha_course/widgets/dom.js";
import { makeQueue } from "../../../mha_course/widgets/protocol.js";

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

/** Make a queue that notes what it sends, with a clock that the test turns. */
function watched() {
  const [sent, late] = [[], mock.fn()];
  return { sent, late, queue: makeQueue((question) => sent.push(question), late) }; // its answer is known by its number
}

test("one question is on its way at a time, and then the newest", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { sent, queue } = watched();
  assert.ok(queue.idle());
  for (const question of ["a", "b", "c"]) queue.ask(question);
  assert.deepEqual(sent, ["a"]);
  assert.deepEqual([queue.idle(), queue.waiting()], [false, "c"]);
  assert.ok(queue.landed(1));
  assert.deepEqual(sent, ["a"]); // the answer is drawn first
  queue.pump();
  assert.deepEqual(sent, ["a", "c"]);
  assert.ok(queue.landed(2));
  assert.ok(queue.idle());
});

test("a kernel that says nothing is told of once, and is asked again at the next move", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { sent, late, queue } = watched();
  queue.ask("a");
  queue.ask("b");
  context.mock.timers.tick(2999);
  assert.equal(late.mock.callCount(), 0);
  context.mock.timers.tick(1);
  assert.equal(late.mock.callCount(), 1);
  assert.deepEqual(sent, ["a"]);
  queue.ask("c");
  assert.deepEqual(sent, ["a", "c"]);
  assert.equal(queue.landed(1), false); // the first answer after all
  assert.ok(queue.landed(2));
  context.mock.timers.tick(9000);
  assert.equal(late.mock.callCount(), 1);
});

test("a question is not called late once its picture is gone", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { late, queue } = watched();
  queue.ask("a");
  queue.stop();
  context.mock.timers.tick(9000);
  assert.equal(late.mock.callCount(), 0);
});
