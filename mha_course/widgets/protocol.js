// How widget and kernel communicate (CourseWidget in base.py is the other end): options and state come in, one event
// at a time goes out.

import { answererOf } from "./without_kernel.js";

/**
 * @typedef {object} State What is drawn; a widget adds what it needs.
 * @property {number} serial That of the event it answers.
 * @property {string} trouble What went wrong, or nothing; the rest is then the last good picture.
 * @property {Object<string, any>} values The values of the controls, by name.
 * @property {any} [only] What this state covers, if it is only a part.
 *
 * @typedef {object} Event What the learner did. All but its number is the widget's own.
 * @property {number} [serial] Identifies its answer.
 * @property {Object<string, any>} [moved] The new values of controls, by name.
 * @property {true} [rest] Asks for the rest of a partial state.
 */

/** Shown by all widgets if the kernel does not answer: it may be busy or gone, which cannot be told. */
const GONE = "The kernel does not answer. If it is busy, wait; if it is gone, run the cell again.";
const PATIENCE = 3000; // milliseconds until a kernel that is silent is said not to answer
export const SETTLED = 150; // milliseconds until the kernel hears what was chosen, or is asked for the rest

/**
 * Follow the state of a model, and send it events. `draw(state)` is called with every new state, before the next
 * event goes out; `showTrouble(text)` with what went wrong, or nothing.
 *
 * Only one event is in flight at a time. Of those sent in the meantime, the newest replaces older ones and waits, so
 * that events never pile up behind a slow answer; if none comes in time, the next event goes out. The rest of a state
 * that came in part is requested once nothing moves: until then it would be superseded.
 */
export function connect(model, draw, showTrouble, compute) {
  const answer = answererOf(model, compute);
  // One widget may be shown in two pages: each counts from its own start, so that answers are not mixed up.
  let serial = Math.floor(Math.random() * 1e12);
  let awaited = null; // the number of the event that is on its way
  let waiting = null; // the event that goes out next
  let timer = null;
  let resting = null; // until the rest is asked for

  const idle = () => awaited === null && waiting === null;
  function giveUp() {
    awaited = null;
    showTrouble(GONE);
  }
  function pump() {
    if (awaited !== null || waiting === null) return;
    serial += 1;
    awaited = serial;
    timer = setTimeout(giveUp, PATIENCE);
    const event = { ...waiting, serial };
    waiting = null;
    if (answer) return answer(event);
    model.set("event", event);
    model.save_changes();
  }
  /** Send an event, once the one before is answered. */
  function send(event) {
    waiting = event;
    pump();
  }
  function follow() {
    const state = model.get("state");
    // An answer that comes too late does not count.
    if (state.serial === awaited) {
      clearTimeout(timer);
      awaited = null;
    }
    showTrouble(state.trouble);
    draw(state);
    pump();
    clearTimeout(resting);
    if (state.only) resting = setTimeout(() => idle() && send({ rest: true }), SETTLED);
  }
  model.on("change:state", follow);
  return {
    idle,
    send,
    /** Send the new value of a control, with all that moved since the last event. */
    move: (name, value) => send({ moved: { ...waiting?.moved, [name]: value } }),
    follow,
    stop() {
      clearTimeout(timer);
      clearTimeout(resting);
      model.off("change:state", follow);
    },
  };
}

/** Show the values of a state in the controls, where nothing newer is being asked. */
export function showValues(controls, { values }) {
  for (const [name, control] of controls)
    if (values[name] !== undefined) control.show(values[name]);
}
