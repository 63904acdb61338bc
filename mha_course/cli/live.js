// Widgets without a kernel: their state is in the page, and nobody else hears what becomes of it.

export class Model {
  constructor(state) {
    const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    this.state = JSON.parse(state, (key, value) =>
      value?.base64 === undefined ? value : bytesOf(value.base64),
    );
    this.calls = [];
  }
  get(key) {
    return this.state[key];
  }
  set(key, value) {
    this.state[key] = value;
    for (const [event, call] of this.calls) if (event === `change:${key}`) call();
  }
  save_changes() {}
  on(event, call) {
    this.calls.push([event, call]);
  }
  off(event, call) {
    this.calls = this.calls.filter((pair) => pair[0] !== event || pair[1] !== call);
  }
}

/** Draw the widgets whose state stands in these places, over their static pictures; scripts have set window.widgets. */
export function enliven(places) {
  for (const el of places) {
    const script = el.querySelector(":scope > script");
    if (!script) continue; // it lives already
    const model = new Model(script.textContent);
    el.replaceChildren();
    window.widgets[el.dataset.widget].render({ model, el });
  }
}
