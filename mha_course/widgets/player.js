// What all players share: a position with buttons, a slider and keys, which can also advance by itself.

import { catchKeys, clamp, followModel, make, makeButton, setText } from "./dom.js";

/**
 * What every player gets from Python (player.py); its state is the trait "position", a number from 0 to `last`.
 * @typedef {object} PlayerOptions
 * @property {number} last The number of the last step.
 * @property {number} [pause] Milliseconds between steps while playing, unless reduced motion is preferred.
 */

const [SOON, PAUSE] = [600, 1400]; // milliseconds until the first step plays, and between two
const SAVED = 150; // until the kernel is told: it need not follow every step of a scrub
const BETWEEN = 0.05; // of a step: how finely a pointer moves the slider where steps are in motion
const WORDS = {
  back: "◀\ufe0e Back",
  play: "▶\ufe0e Play",
  pause: "❚❚ Pause",
  next: "Next ▶\ufe0e",
};
const SCROLLS = ["ArrowUp", "ArrowDown", "PageUp", "PageDown"];

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Where a node is laid out. Measure all before anything flies: a flight makes the browser lay the page out again. */
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
 * What a frame plays. A position is a number: 0 is the start, and every whole number a step; between two
 * steps is the motion to the second one.
 * @typedef {object} Played
 * @property {() => number} at Where it is.
 * @property {() => number} last The step at which it ends.
 * @property {(to: number) => void} go Goes to a position.
 * @property {() => number} [wait] Milliseconds from one step to the next while it plays.
 * @property {(step: number) => number} [seconds] How long the motion to a step takes; without it there is none.
 * @property {{ back: string, play: string, pause: string, next: string }} [words] What the buttons say.
 */

/** The frame of what is played: buttons, a slider, keys, and words for where it is. */
export class Frame {
  goal = null; // the step to which it goes by itself
  timer = null;
  drawing = null;
  count = make("span", "count");

  /** @param {Played} played */
  constructor(played) {
    Object.assign(this, { wait: () => PAUSE, words: WORDS, ...played });
    const { back, play, next } = this.words;
    this.back = makeButton("back", back, () => this.stepBack(), "Back");
    this.play = makeButton("play", play, () => this.toggle(), "Play");
    this.next = makeButton("next", next, () => this.stepOn(), "Next");
    this.finest = this.seconds && !still() ? BETWEEN : 1;
    const range = { type: "range", className: "scrub", min: 0, max: this.last() };
    this.scrub = make("input", { ...range, step: this.finest, ariaLabel: "Step" });
    this.scrub.addEventListener("input", () => this.jump(Number(this.scrub.value)));
  }

  get isPlaying() {
    return this.goal === this.last();
  }

  /** Show where it is, in these words. */
  show(text, spoken = text) {
    const at = this.at();
    // The browser redoes a slider's layout for every number it gets.
    if (Math.abs(this.scrub.value - at) >= this.finest / 2) this.scrub.value = at;
    this.scrub.ariaValueText = spoken;
    setText(this.count, text);
    this.back.ariaDisabled = at <= 0;
    this.next.ariaDisabled = at >= this.last();
  }

  stop() {
    this.aim(null);
  }

  /** Go by itself up to a step, or to none. */
  aim(step) {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.drawing);
    this.goal = step;
    setText(this.play, this.isPlaying ? this.words.pause : this.words.play);
    this.play.ariaLabel = this.isPlaying ? "Pause" : "Play";
  }

  /** Go on to the next step, in motion unless that is to be reduced. */
  advance() {
    const step = Math.floor(this.at()) + 1;
    if (this.seconds && !still()) this.move(step, performance.now());
    else this.arrive(step);
  }

  move(step, before) {
    this.drawing = requestAnimationFrame((now) => {
      const passed = clamp(now - before, 0, 100); // less than it was, where the page was out of sight
      const to = this.at() + passed / 1000 / this.seconds(step);
      if (to >= step) return this.arrive(step);
      this.move(step, now);
      this.go(to);
    });
  }

  arrive(step) {
    if (step >= this.goal) this.stop();
    this.go(step);
    if (this.goal !== null) this.timer = setTimeout(() => this.advance(), this.wait());
  }

  /** Begin to play, from the start where it is at its end; or stop. */
  toggle() {
    if (this.isPlaying) return this.stop();
    if (this.at() >= this.last()) this.go(0);
    this.aim(this.last());
    if (this.seconds) this.advance();
    else this.timer = setTimeout(() => this.advance(), SOON);
  }

  /** Go to a position, which stops it. */
  jump(to) {
    this.stop();
    this.go(clamp(to, 0, this.last()));
  }

  stepBack() {
    this.jump(Math.ceil(this.at()) - 1);
  }

  /** End the motion that it is in, and begin the next; while it plays it goes on from there. */
  stepOn() {
    const done = Math.ceil(this.at());
    if (!this.seconds || done === this.last()) return this.jump(done + 1);
    this.go(done);
    this.aim(Math.max(this.goal, done + 1));
    this.advance();
  }

  /** Answer to a key, and say whether it was one of ours. */
  press(key, target) {
    const keys = {
      ArrowRight: () => this.stepOn(),
      ArrowLeft: () => this.stepBack(),
      Home: () => this.jump(0),
      End: () => this.jump(this.last()),
      " ": () => this.toggle(),
    };
    // On the slider, arrow keys go from step to step, but a pointer may stop in between.
    const jumpOn = () => this.jump(Math.floor(this.at()) + 1);
    const slide = { ArrowRight: jumpOn, ArrowUp: jumpOn, ArrowDown: keys.ArrowLeft };
    const actions = target === this.scrub ? { ...keys, ...slide } : keys;
    if (!Object.hasOwn(actions, key)) return false;
    actions[key]();
    return true;
  }
}

/**
 * Make a player. `show(at, before)` draws a step and returns the milliseconds that this takes, if it moves; `follow`
 * must be called once all is in place, and `end` calls `stops`, to which more may be added. The step is the model's
 * "position", so that two views stay in step.
 */
export function makePlayer({ model, el }, name, label, show) {
  /** @type {PlayerOptions} */
  const { last, pause = PAUSE } = model.get("options");
  let [at, takes, saving] = [-1, 0, null];

  function put(to) {
    if (to === at) return;
    model.set("position", to);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), SAVED);
  }
  const wait = () => takes + (still() ? PAUSE : pause);
  const frame = new Frame({ at: () => at, last: () => last, go: put, wait });
  const { back, play, next, scrub, count } = frame;
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
    return !pressed && frame.press(event.key, target);
  }
  const stops = [
    catchKeys(root, answer),
    followModel(model, ["position"], follow),
    () => frame.stop(),
    () => clearTimeout(saving),
    () => root.remove(),
  ];
  function end() {
    for (const stop of stops) stop();
  }
  const go = (to) => frame.jump(to);
  return { root, go, say: (words) => frame.show(words), follow, stops, end };
}
