import assert from "node:assert/strict";
import { test } from "node:test";

import { connect } from "../../../mha_course/widgets/protocol.js";

const PATIENCE = 3000; // milliseconds, after which a kernel is said not to answer
const SETTLED = 150; // milliseconds in which nothing came, until the rest is asked for
const GONE = /^The kernel does not answer/;

/** Make a model that keeps what is sent, a connection to it, and what it draws and says; the test turns the clock. */
function connected(context) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const [sent, drawn, troubles, order, followers] = [[], [], [], [], new Set()];
  let [state, event] = [{ serial: 0, trouble: "", values: {} }, null];
  const model = {
    get: (name) => ({ state, event })[name],
    set: (name, value) => (event = value),
    save_changes() {
      sent.push(event);
      order.push("sent");
    },
    on: (name, call) => name === "change:state" && followers.add(call),
    off: (name, call) => name === "change:state" && followers.delete(call),
  };
  const answer = (serial, { trouble = "", only } = {}) => {
    state = { serial, trouble, values: {}, only };
    for (const call of followers) call();
  };
  function draw(now) {
    drawn.push(now.serial);
    order.push("drawn");
  }
  const kernel = connect(model, draw, (text) => troubles.push(text));
  return { kernel, sent, drawn, troubles, order, answer, followers };
}

const wordsOf = (sent) => sent.map(({ word }) => word);

test("one event is on its way at a time, and then the newest", (context) => {
  const { kernel, sent, answer } = connected(context);
  assert.ok(kernel.idle());
  for (const word of ["a", "b", "c"]) kernel.send({ word });
  assert.deepEqual(wordsOf(sent), ["a"]);
  assert.ok(!kernel.idle());
  answer(sent[0].serial);
  assert.deepEqual(wordsOf(sent), ["a", "c"]);
  assert.ok(!kernel.idle());
  answer(sent[1].serial);
  assert.ok(kernel.idle());
});

test("the answer is drawn before the next event goes out", (context) => {
  const { kernel, sent, order, answer } = connected(context);
  kernel.send({ word: "a" });
  kernel.send({ word: "b" });
  answer(sent[0].serial);
  assert.deepEqual(order, ["sent", "drawn", "sent"]);
});

test("controls that move while the kernel is busy go out together, each with its newest value", (context) => {
  const { kernel, sent, answer } = connected(context);
  kernel.move("scale", 1);
  for (const scale of [2, 3]) kernel.move("scale", scale);
  kernel.move("mask", "causal");
  answer(sent[0].serial);
  assert.deepEqual(sent.map(({ moved }) => moved), [{ scale: 1 }, { scale: 3, mask: "causal" }]); // prettier-ignore
  answer(sent[1].serial);
  kernel.move("mask", "none");
  assert.deepEqual(sent[2].moved, { mask: "none" }); // what was answered is not sent again
});

test("the rest is asked for once nothing moves, of the newest state alone, and never in the way of a move", (context) => {
  const { kernel, sent, drawn, answer } = connected(context);
  const first = { only: { layer: 0, slot: 0 } };
  kernel.move("scale", 1);
  answer(sent[0].serial, first);
  context.mock.timers.tick(SETTLED - 1);
  kernel.move("scale", 2);
  context.mock.timers.tick(SETTLED); // the rest of the state before would be superseded
  answer(sent[1].serial, first);
  assert.equal(sent.length, 2);
  context.mock.timers.tick(SETTLED - 1);
  kernel.move("scale", 3);
  answer(sent[2].serial, first);
  context.mock.timers.tick(SETTLED - 1);
  assert.equal(sent.length, 3);
  context.mock.timers.tick(1);
  assert.equal(sent[3].rest, true);
  kernel.move("scale", 4); // too late: the rest is drawn, and then this
  answer(sent[3].serial);
  assert.deepEqual(sent[4].moved, { scale: 4 });
  answer(sent[4].serial);
  assert.deepEqual(drawn, sent.map(({ serial }) => serial)); // prettier-ignore
  context.mock.timers.tick(SETTLED);
  assert.equal(sent.length, 5); // all of it has come
  answer(0, first);
  kernel.stop();
  context.mock.timers.tick(SETTLED);
  assert.equal(sent.length, 5);
});

test("every state is drawn, an answer to another view as well, and what went wrong is said", (context) => {
  const { kernel, sent, drawn, troubles, answer } = connected(context);
  kernel.follow();
  kernel.send({});
  answer(sent[0].serial - 0.5, { trouble: "no number" });
  assert.ok(!kernel.idle()); // that was another's
  answer(sent[0].serial);
  assert.ok(kernel.idle());
  assert.deepEqual(drawn, [0, sent[0].serial - 0.5, sent[0].serial]);
  assert.deepEqual(troubles, ["", "no number", ""]);
});

test("two views of one widget number their events differently", (context) => {
  const one = connected(context);
  context.mock.timers.reset();
  const two = connected(context);
  for (const { kernel } of [one, two]) kernel.send({});
  assert.notEqual(one.sent[0].serial, two.sent[0].serial);
});

test("a kernel that says nothing is told of once, and is asked again at the next move", (context) => {
  const { kernel, sent, troubles, answer } = connected(context);
  kernel.send({ word: "a" });
  kernel.send({ word: "b" });
  context.mock.timers.tick(PATIENCE - 1);
  assert.deepEqual(troubles, []);
  context.mock.timers.tick(1);
  assert.equal(troubles.length, 1);
  assert.match(troubles[0], GONE);
  assert.deepEqual(wordsOf(sent), ["a"]);
  kernel.send({ word: "c" });
  assert.deepEqual(wordsOf(sent), ["a", "c"]);
  answer(sent[0].serial); // the first answer after all
  assert.ok(!kernel.idle());
  answer(sent[1].serial);
  assert.ok(kernel.idle());
  context.mock.timers.tick(3 * PATIENCE);
  assert.deepEqual(troubles.slice(1), ["", ""]);
});

test("where a picture is gone, nothing is drawn, said or called late", (context) => {
  const { kernel, drawn, troubles, answer, followers } = connected(context);
  kernel.send({});
  kernel.stop();
  assert.equal(followers.size, 0);
  context.mock.timers.tick(3 * PATIENCE);
  answer(0);
  assert.deepEqual([drawn, troubles], [[], []]);
});
