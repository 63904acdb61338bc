// Widgets without a kernel: their state stays in the page.

const SETTLES = 1500; // milliseconds in which the widgets of a page are drawn

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

/**
 * Keep a place at the top of the window while widgets above it grow and the browser goes back to where a page was,
 * until its reader moves.
 */
function holdInView(place) {
  const show = () => place.scrollIntoView();
  const watch = new ResizeObserver(show);
  function stop() {
    watch.disconnect();
    removeEventListener("scroll", show);
  }
  watch.observe(document.body);
  addEventListener("scroll", show);
  for (const event of ["wheel", "pointerdown", "touchmove", "keydown"])
    addEventListener(event, stop, { capture: true, once: true, passive: true });
  setTimeout(stop, SETTLES);
}

/**
 * Keep what an explorer shows in the address of its page, as `#s=the-grey-cat&head=1&word=2`, and show what an address
 * asks for. An address without `word` is a section's.
 */
function share(model, el) {
  const field = el.querySelector("[data-control=sentence]");
  const sentence = () => model.get("state").values.sentence;
  const viewKey = () => `${sentence()} ${model.get("head")} ${model.get("row")}`;
  let start = viewKey();
  let linked = null;

  function point() {
    const places = { head: linked?.get("head"), row: linked?.get("word") };
    for (const [trait, place] of Object.entries(places))
      if (/^\d+$/.test(place)) model.set(trait, Number(place));
    linked = null;
    write(); // once: a reload between two addresses would keep half of what was linked
  }
  function read() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    if (!parameters.has("word")) return;
    linked = parameters;
    holdInView(el);
    const words = parameters.get("s")?.replaceAll("-", " ");
    if (!field || !words || words === sentence()) return point();
    field.value = words;
    field.dispatchEvent(new Event("input"));
  }
  function write() {
    if (linked || viewKey() === start || location.hash.startsWith("#slide-")) return;
    start = null; // from now on, changes are written
    const words = field ? { s: sentence().replaceAll(" ", "-") } : {};
    const state = { ...words, head: model.get("head"), word: model.get("row") };
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  }
  model.on("change:state", point);
  for (const name of ["head", "row"]) model.on(`change:${name}`, write);
  addEventListener("hashchange", read);
  read();
}

/** Draw the widgets whose state is in these places over their static pictures; scripts have set window.widgets. */
export function enliven(places) {
  for (const el of places) {
    const script = el.querySelector(":scope > script");
    if (!script) continue; // it lives already
    const model = new Model(script.textContent);
    el.replaceChildren();
    window.widgets[el.dataset.widget].render({ model, el });
    if (el === document.querySelector("[data-widget=HeadExplorer]")) share(model, el);
  }
}
