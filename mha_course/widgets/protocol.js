// How a widget and the kernel speak (CourseWidget in base.py is the other end): options and state come down, one event
// at a time goes up.

/**
 * @typedef {object} State What is drawn; a widget adds what it needs.
 * @property {number} serial That of the event it answers.
 * @property {string} trouble What went wrong, or nothing; the rest is then the last good picture.
 * @property {Object<string, any>} values The values of the controls, by name.
 *
 * @typedef {object} Event What somebody did. All but its number is the widget's own.
 * @property {number} [serial] By which its answer is known.
 * @property {Object<string, any>} [moved] The new values of controls, by name.
 */

/** What all widgets show where the kernel does not answer: nobody can tell a busy one from one that is gone. */
export const GONE =
  "The kernel does not answer. If it is busy, wait; if it is gone, run the cell again.";
const PATIENCE = 3000; // milliseconds until a kernel that is silent is said not to answer

/**
 * Ask the kernel one question at a time. What is asked meanwhile waits, the newest in the place of older ones, so that
 * a slow answer never piles up. `send` sends a question and returns by what its answer is known; `late` is called
 * where none came in time, and whatever is asked next goes out.
 */
export function makeQueue(send, late) {
  let [flying, waiting, timer] = [null, null, null];
  function pump() {
    if (flying !== null || waiting === null) return;
    const question = waiting;
    waiting = null;
    timer = setTimeout(() => {
      flying = null;
      late();
    }, PATIENCE);
    flying = send(question);
  }
  return {
    pump,
    waiting: () => waiting,
    idle: () => flying === null && waiting === null,
    ask(question) {
      waiting = question;
      pump();
    },
    /** Note an answer, and return whether it is the one that was waited for: an older one does not count. */
    landed(key) {
      if (flying === null || key !== flying) return false;
      clearTimeout(timer);
      flying = null;
      return true;
    },
    stop: () => clearTimeout(timer),
  };
}

/**
 * Follow the state of a model, and send it events. `draw(state)` is called with every state that comes, once its
 * number is noted and before the next event goes out; `showTrouble(text)` with what went wrong, or nothing.
 */
export function connect(model, draw, showTrouble) {
  // One widget may be seen in two pages: each counts from a place of its own, so that no answer is taken for another.
  let serial = Math.floor(Math.random() * 1e12);
  function send(event) {
    serial += 1;
    model.set("event", { ...event, serial });
    model.save_changes();
    return serial;
  }
  const queue = makeQueue(send, () => showTrouble(GONE));
  function follow() {
    const state = model.get("state");
    queue.landed(state.serial);
    showTrouble(state.trouble);
    draw(state);
    queue.pump();
  }
  model.on("change:state", follow);
  return {
    idle: queue.idle,
    /** Send an event, once the one before is answered. */
    send: queue.ask,
    /** Send the new value of a control, with all that moved since the last event. */
    move: (name, value) => queue.ask({ moved: { ...queue.waiting()?.moved, [name]: value } }),
    follow,
    stop() {
      queue.stop();
      model.off("change:state", follow);
    },
  };
}

/** Show the values of a state in the controls, where nothing newer is being asked. */
export function showValues(controls, { values }) {
  for (const [name, control] of controls)
    if (values[name] !== undefined) control.show(values[name]);
}
