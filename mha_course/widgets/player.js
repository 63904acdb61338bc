// What all that is played shares: buttons, a slider and keys that step, and steps that follow each other by themselves.

import { catchKeys, clamp, followModel, make, makeButton, setText } from "./dom.js";

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
 * Make the frame of what is played: buttons, a slider, and words for where it is. A position is a number: 0 is the start,
 * and every whole number a step.
 * @param {object} picture
 * @param {() => number} picture.at Where it is.
 * @param {() => number} picture.last The step at which it ends.
 * @param {(to: number) => void} picture.go Goes to a position.
 * @param {() => number} [picture.wait] Milliseconds from one step to the next while it plays.
 */
export function makeFrame({ at, last, go, wait = () => PAUSE }) {
  let timer = null;

  function advance() {
    go(Math.floor(at()) + 1);
    if (at() >= last()) toggle(false);
    else timer = setTimeout(advance, wait());
  }
  /** Begin to play, from the start where it is at its end; or stop. */
  function toggle(on = timer === null) {
    clearTimeout(timer);
    if (on && at() >= last()) go(0);
    timer = on ? setTimeout(advance, SOON) : null;
    setText(play, on ? STOP : PLAY);
    play.setAttribute("aria-label", on ? "Pause" : "Play");
  }
  /** Go to a position, which stops it. */
  function jump(to) {
    toggle(false);
    go(clamp(to, 0, last()));
  }
  const stepBack = () => jump(Math.ceil(at()) - 1);
  const stepOn = () => jump(Math.floor(at()) + 1);

  const back = makeButton("", "◀\ufe0e Back", stepBack, "Back");
  const play = makeButton("play", PLAY, () => toggle(), "Play");
  const next = makeButton("", "Next ▶\ufe0e", stepOn, "Next");
  const scrub = make("input", { type: "range", min: 0, max: last() });
  scrub.ariaLabel = "Step";
  scrub.addEventListener("input", () => jump(Number(scrub.value)));
  const count = make("span", "count");

  /** Show where it is, in these words. */
  function show(words, spoken = words) {
    scrub.value = at();
    scrub.ariaValueText = spoken;
    setText(count, words);
    back.ariaDisabled = at() <= 0;
    next.ariaDisabled = at() >= last();
  }
  const keys = {
    ArrowRight: stepOn,
    ArrowLeft: stepBack,
    Home: () => jump(0),
    End: () => jump(last()),
    " ": () => toggle(),
  };
  return { back, play, next, scrub, count, keys, toggle, jump, show };
}

/**
 * Make a player. `show(at, before)` draws a step and returns the milliseconds that this takes, if it moves; `follow`
 * has to be called once all is in place. The step is the model's "position", so that two views go together.
 */
export function makePlayer({ model, el }, name, label, show) {
  /** @type {PlayerOptions} */
  const { last, pause = PAUSE } = model.get("options");
  let [at, takes, saving] = [-1, 0, null];

  function go(to) {
    if (to === at) return;
    model.set("position", to);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), SAVED);
  }
  const wait = () => takes + (still() ? PAUSE : pause);
  const frame = makeFrame({ at: () => at, last: () => last, go, wait });
  const { back, play, next, scrub, count, keys } = frame;
  const bar = make("div", "controls", back, play, next, scrub, count);
  const root = make("div", { className: `${name} mha-player mha-picture`, tabIndex: 0 }, bar);
  root.role = "group";
  root.ariaLabel = `${label}. Arrow keys step, space plays, Home and End jump.`;
  el.append(root);

  function follow() {
    const [to, before] = [clamp(model.get("position"), 0, last), at];
    if (to === before) return;
    at = to;
    frame.show(`${at + 1} / ${last + 1}`, `${at + 1} of ${last + 1}`);
    takes = show(at, before) ?? 0;
  }
  function answer(event, target) {
    if (target.matches(".lines") && SCROLLS.includes(event.key)) event.stopPropagation(); // the browser scrolls
    const pressed = target.matches("button, summary") && event.key === " "; // they answer themselves
    if (pressed || !Object.hasOwn(keys, event.key)) return false;
    keys[event.key]();
    return true;
  }
  const stops = [catchKeys(root, answer), followModel(model, ["position"], follow)];

  function end() {
    frame.toggle(false);
    clearTimeout(saving);
    for (const stop of stops) stop();
    root.remove();
  }
  return { root, go: frame.jump, say: frame.show, follow, end };
}
