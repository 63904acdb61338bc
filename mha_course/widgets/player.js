// What all players share: buttons, a slider and keys that step, and steps that follow each other by themselves.

import { catchKeys, clamp, followModel, make, makeButton } from "./dom.js";

/**
 * What every player gets from Python (player.py); its state is the trait "position", a number from 0 to `last`.
 * @typedef {object} PlayerOptions
 * @property {number} last The number of the last step.
 * @property {number} [pause] Milliseconds between two steps that play, unless motion is to be reduced.
 */

const [SOON, PAUSE] = [600, 1400]; // milliseconds until the first step plays, and between two
const SAVED = 150; // until the kernel is told: it need not follow every step of a scrub
const [PLAY, STOP] = ["▶\ufe0e Play", "❚❚ Pause"];
const SCROLLS = ["ArrowUp", "ArrowDown", "PageUp", "PageDown"];

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Where a node is laid out. To be asked of all before anything flies: each flight makes the browser lay out anew. */
export const spotOf = (node) => [node.offsetLeft, node.offsetTop];

/** Let a node fly from one spot to the other, where it is laid out; it may appear on the way. */
export function fly(node, [x, y], [left, top], timing, opacity = 1) {
  const transform = [`translate(${x - left}px, ${y - top}px)`, "none"];
  const path = { transform, zIndex: [2, 2], opacity: [opacity, 1] };
  node.animate(path, { easing: "ease-in-out", fill: "backwards", ...timing });
}

/** Let a node appear slowly, so that what flies is seen first. */
export const fade = (node, duration) => node.animate({ opacity: [0, 0.4, 0.4, 1] }, { duration });

/**
 * Make the button that plays. `next` shows the next step, `rewind` the first one; `wait` says how many milliseconds
 * to look at it.
 */
export function makePlay({ atEnd, rewind, next, wait = () => PAUSE }) {
  let timer = null;
  const button = makeButton("play", PLAY, () => toggle(), "Play");
  function advance() {
    next();
    if (atEnd()) toggle(false);
    else timer = setTimeout(advance, wait());
  }
  function toggle(on = timer === null) {
    clearTimeout(timer);
    if (on && atEnd()) rewind();
    timer = on ? setTimeout(advance, SOON) : null;
    button.textContent = on ? STOP : PLAY;
    button.setAttribute("aria-label", on ? "Pause" : "Play");
  }
  return { button, toggle };
}

/**
 * Make a player. `show(at, before)` draws a step and returns the milliseconds that this takes, if it moves; `follow`
 * has to be called once all is in place. The step is the model's "position", so that two views go together.
 */
export function makePlayer({ model, el }, name, label, show) {
  /** @type {PlayerOptions} */
  const { last, pause = PAUSE } = model.get("options");
  let [at, takes, saving] = [-1, 0, null];

  const back = makeButton("", "◀\ufe0e Back", () => go(at - 1), "Back");
  const { button: play, toggle } = makePlay({
    atEnd: () => at === last,
    rewind: () => step(0),
    next: () => step(at + 1),
    wait: () => takes + (still() ? PAUSE : pause),
  });
  const next = makeButton("", "Next ▶\ufe0e", () => go(at + 1), "Next");
  const scrub = make("input", { type: "range", min: 0, max: last });
  scrub.setAttribute("aria-label", "Step");
  scrub.addEventListener("input", () => go(Number(scrub.value)));
  const count = make("span", "count");
  const bar = make("div", "controls", back, play, next, scrub, count);
  const root = make("div", { className: `${name} mha-player mha-picture`, tabIndex: 0 }, bar);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `${label}. Arrow keys step, space plays, Home and End jump.`);
  el.append(root);

  function follow() {
    const [to, before] = [clamp(model.get("position"), 0, last), at];
    if (to === before) return;
    at = to;
    scrub.value = at;
    count.textContent = `${at + 1} / ${last + 1}`;
    scrub.setAttribute("aria-valuetext", `${at + 1} of ${last + 1}`);
    back.setAttribute("aria-disabled", at === 0);
    next.setAttribute("aria-disabled", at === last);
    takes = show(at, before) ?? 0;
  }
  function step(to) {
    const wanted = clamp(to, 0, last);
    if (wanted === at) return;
    model.set("position", wanted);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), SAVED);
  }
  function go(to) {
    toggle(false);
    step(to);
  }

  const actions = {
    ArrowRight: () => go(at + 1),
    ArrowLeft: () => go(at - 1),
    Home: () => go(0),
    End: () => go(last),
    " ": () => toggle(),
  };
  function answer(event, target) {
    if (target.matches(".lines") && SCROLLS.includes(event.key)) event.stopPropagation(); // the browser scrolls
    const pressed = target.tagName === "BUTTON" && event.key === " "; // the button answers
    if (pressed || !Object.hasOwn(actions, event.key)) return false;
    actions[event.key]();
    return true;
  }
  const stops = [catchKeys(root, answer), followModel(model, ["position"], follow)];

  function end() {
    toggle(false);
    clearTimeout(saving);
    for (const stop of stops) stop();
    root.remove();
  }
  return { root, go, follow, end };
}
