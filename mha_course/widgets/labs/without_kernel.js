// What answers a lab where there is no kernel: a table of all its states, or the lab's own script.

/**
 * @typedef {object} States As states.py packs them.
 * @property {object[]} panels All that differ.
 * @property {Object<string, [number[] | null, string, string]>} states By the values of the controls: the places of
 * its panels, or null where drawing failed; its sentence; and what went wrong.
 * @property {Object<string, Object<string, any>>} lands The values after a move that sets other controls, too.
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

/** Return all values after a move; null in a list stands for what stays as it is. */
export function valuesAfter(moved, before) {
  const whole = (sent, old) => (Array.isArray(sent) ? sent.map((one, i) => one ?? old[i]) : sent);
  const after = ([name, old]) => [name, name in moved ? whole(moved[name], old) : old];
  return Object.fromEntries(Object.entries(before).map(after));
}

/** Return a model whose events the page answers, where there is no kernel: from a table, or as `compute` does. */
export function answered(model, compute) {
  const alone = model.get("alone");
  if (!alone) return model;
  const ready = alone === "computed" ? compute : unpacked(alone).then(lookUp);
  return {
    get: (key) => model.get(key),
    set: (key, value) => model.set(key, value),
    on: (event, call) => model.on(event, call),
    off: (event, call) => model.off(event, call),
    async save_changes() {
      const { moved, serial } = model.get("event");
      const find = await ready;
      const state = { trouble: "", ...find(moved, model.get("state")), serial };
      model.set("state", state);
    },
  };
}
