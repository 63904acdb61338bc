// What answers a widget without a kernel: a table of all its states, its own script, or a function's.

import { make } from "./dom.js";

/**
 * @typedef {object} States As states.py packs them.
 * @property {object[]} panels All that differ.
 * @property {[Object<string, any>, number[] | null, string, string][]} states The values of the controls; the places of
 * its panels, or null where drawing failed; its sentence; and what went wrong.
 * @property {Object<string, number>} outcomes The state after a move that also sets other controls.
 *
 * @typedef {object} Script A function's own script.
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
function lookUp({ panels, states, outcomes }) {
  const keyOf = (values) => JSON.stringify(Object.values(values));
  const places = new Map(states.map(([values], i) => [keyOf(values), i]));
  return (moved, state) => {
    let { values } = state;
    for (const [name, value] of Object.entries(moved)) {
      const end = outcomes[`${places.get(keyOf(values))} ${name} ${JSON.stringify(value)}`];
      values = end === undefined ? { ...values, [name]: value } : states[end][0];
    }
    const [, drawn, text, trouble] = states[places.get(keyOf(values))];
    if (!drawn) return { ...state, values, trouble };
    return { values, panels: drawn.map((place) => panels[place]), text, trouble };
  };
}

/** Run the script of a function, inline: a page that forbids eval allows that. */
function scripted({ script, data }) {
  const node = make("script", { textContent: `window.answerWith = ${script}` });
  document.head.append(node);
  node.remove();
  return window.answerWith(data);
}

/** Return what computes a state from a move and the state before, in a page without a kernel; otherwise nothing. */
function computeOf(model) {
  const answerer = !model.send && model.get("answerer");
  if (!answerer) return null;
  return answerer.script ? scripted(answerer) : unpacked(answerer).then(lookUp);
}

/**
 * Return what answers a model's events in the page; nothing where the kernel does. A widget that has
 * `compute(moved, state)`, which returns the state after a move, needs no kernel.
 */
export function answererOf(model, compute = computeOf(model)) {
  if (!compute) return null;
  return async ({ moved, serial }) => {
    const answer = await compute;
    model.set("state", { trouble: "", ...answer(moved, model.get("state")), serial });
    model.save_changes();
  };
}
