// What answers a widget where there is no kernel: a table of all its states, or a function's own JavaScript.

import { make } from "./dom.js";

/**
 * @typedef {object} States As states.py packs them.
 * @property {object[]} panels All that differ.
 * @property {Object<string, [number[] | null, string, string]>} states By the values of the controls: the places of
 * its panels, or null where drawing failed; its sentence; and what went wrong.
 * @property {Object<string, Object<string, any>>} lands The values after a move that sets other controls, too.
 *
 * @typedef {object} Lent What a function brings that answers by itself.
 * @property {string} script Whose value, given the data, takes what moved and the state, and returns the next state.
 * @property {any} data
 */

/** Return what Python compressed. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Return what looks states up in a table. */
function lookUp({ panels, states, lands }) {
  const keyOf = (values) => JSON.stringify(Object.values(values));
  return (moved, state) => {
    let { values } = state;
    for (const [name, value] of Object.entries(moved)) {
      const way = JSON.stringify([keyOf(values), name, value]);
      values = lands[way] ?? { ...values, [name]: value };
    }
    const [places, text, trouble] = states[keyOf(values)];
    if (!places) return { ...state, values, trouble };
    return { values, panels: places.map((place) => panels[place]), text, trouble };
  };
}

/** Run the script of a function, inline: a page that forbids eval allows that. */
function lent({ script, data }) {
  const node = make("script", { textContent: `window.answerWith = ${script}` });
  document.head.append(node);
  node.remove();
  return window.answerWith(data);
}

/** Return what answers the events of a model in the page, where there is no kernel; else nothing. */
export function answererOf(model) {
  const alone = model.get("alone");
  if (!alone) return null;
  const ready = alone.script ? lent(alone) : unpacked(alone).then(lookUp);
  return async () => {
    const { moved, serial } = model.get("event");
    const answer = await ready;
    model.set("state", { ...answer(moved, model.get("state")), serial });
  };
}
