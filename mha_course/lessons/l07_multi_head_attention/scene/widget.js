// The whole of multi-head attention in one picture: it is walked, followed and looked into without a kernel.

import { isolateWord, clamp, make, makeButton, setText } from "../../../widgets/dom.js";
import { inView } from "../../../widgets/in_view.js";
import { palettesOf } from "../../../widgets/matrix.js";
import { Stage } from "../../../widgets/stage.js";
import { Picture } from "./draw.js";
import { lookInside, readSteps, strongest } from "./numbers.js";
import { STAGES, sentenceOf, stageAt } from "./stages.js";

/**
 * @typedef {object} SceneOptions
 * @property {Object<string, string>} colours Of x, q, k, v, context and out, and the accent.
 * @property {boolean} asks Whether there is a learner's function.
 * @property {DataView} weights 256 colours from 0 to 1, four bytes a colour.
 * @property {DataView} signed 256 colours from -1 to 1.
 *
 * @typedef {{}} SceneEvent The learner's function is to be called; there is nothing more to say.
 */

const [LEAST, MOST] = [0.88, 1.08]; // how far the picture follows its place; where there is less it scrolls
const LAST = STAGES.length - 1;
const PAUSE = 5000; // milliseconds that a stage stays while it plays
const KEYS =
  "In the picture: Space or → goes to the next stage, ← back, Escape to the overview; ↑ and ↓ follow another word, " +
  "Page Up and Page Down another head. Enter looks inside: arrow keys then go from number to number, Escape leaves.";

class Scene extends Stage {
  constructor({ model, el }) {
    super(model);
    this.hover = this.cursor = this.playing = null;
    this.stage = model.get("stage");
    const { signed, weights } = model.get("options");
    this.palettes = palettesOf({ signed, weights });
    this.build();
    this.start(el, ["stage", "row", "head"]);
    this.stops.push(() => this.setPlaying(false));
  }

  build() {
    const step = (by) => () => this.go(this.model.get("stage") + by);
    this.back = makeButton("back", "Back", step(-1));
    this.next = makeButton("next", "Next", step(1));
    this.play = makeButton("play", "Play", () => this.setPlaying(this.playing === null));
    this.count = make("span", "count");
    this.words = make("select", "follow");
    this.words.addEventListener("change", () => this.put({ row: Number(this.words.value) }));
    const follow = make("label", "", make("span", "", "Follow"), this.words);
    this.heads = make("div", "heads");
    Object.assign(this.heads, { role: "group", ariaLabel: "Head" });
    const bar = make("div", "bar", this.back, this.next, this.play, this.count, follow, this.heads);
    this.sentence = Object.assign(make("p", "sentence"), { ariaLive: "polite" });
    this.paper = make("div", "paper");
    Object.assign(this.paper, {
      tabIndex: 0,
      role: "application",
      ariaRoleDescription: "picture",
      ariaLabel: KEYS,
    });
    this.readout = make("p", "readout");
    const ask = makeButton("recompute", "Recompute", () => this.kernel.send({}));
    const below = make("div", "below", this.source, ask, this.trouble);
    below.hidden = !this.model.get("options").asks;
    const keys = make("details", "keys below", make("summary", "", "Keys"), make("p", "", KEYS));
    const parts = [bar, this.sentence, this.paper, this.readout, this.speaker.node, below, keys];
    this.root = make("div", "mha-scene mha-picture", ...parts);
    Object.assign(this.root, { role: "group", ariaLabel: "Multi-head attention as a whole" });
    const { colours } = this.model.get("options");
    for (const [name, colour] of Object.entries(colours))
      this.root.style.setProperty(`--${name}-on-white`, colour);
    this.paper.addEventListener("pointermove", (event) => this.point(this.placeOf(event)));
    this.paper.addEventListener("pointerleave", () => this.point(null));
    this.paper.addEventListener("click", (event) => this.click(this.placeOf(event)));
  }

  /** Answer to a key in the picture, and say whether it was one of ours. */
  answer({ key }, target) {
    if (target !== this.paper) return false;
    const { stage, row, head } = this.view();
    const { S } = this.steps;
    const actions = {
      " ": () => this.go(stage + 1),
      ArrowRight: () => this.go(stage + 1),
      ArrowLeft: () => this.go(stage - 1),
      ArrowDown: () => this.put({ row: clamp(row + 1, 0, S - 1) }),
      ArrowUp: () => this.put({ row: clamp(row - 1, 0, S - 1) }),
      PageUp: () => this.put({ head: head - 1 }),
      PageDown: () => this.put({ head: head + 1 }),
      Enter: () => this.lookAt(this.startOf({ ...this.view(), row: Math.max(row, 0) })),
      Escape: () => this.go(-1),
    };
    const move = (down, right) => () => {
      const { row: y, column: x } = this.cursor;
      const last = this.widthOf(this.cursor.name) - 1;
      this.lookAt({
        ...this.cursor,
        row: clamp(y + down, 0, S - 1),
        column: clamp(x + right, 0, last),
      });
    };
    const inside = {
      ArrowRight: move(0, 1),
      ArrowLeft: move(0, -1),
      ArrowDown: move(1, 0),
      ArrowUp: move(-1, 0),
      Escape: () => this.lookAt(null),
    };
    const call = this.cursor && Object.hasOwn(inside, key) ? inside[key] : actions[key];
    call?.();
    return Boolean(call);
  }

  // What the learner does.

  /** Return what lies under the pointer. */
  placeOf({ target, clientX, clientY }) {
    const node = target.closest("[data-part], [data-head], [data-words]");
    if (!node) return null;
    const { part, band, head } = node.dataset;
    if (head) return { head: Number(head) };
    const box = node.getBoundingClientRect();
    const at = (count, share) => clamp(Math.floor(count * share), 0, count - 1);
    const { S, plan } = this.steps;
    const [across, down] = [(clientX - box.left) / box.width, (clientY - box.top) / box.height];
    if (!part) return { row: at(S, down) };
    const { rows, columns } = plan.parts[part].boxes[0];
    const [y, x] = [at(rows, down), at(columns, across)];
    const [row, column] = plan.parts[part].transposed ? [x, y] : [y, x];
    return { name: part, row, column, ...(plan.parts[part].bands > 1 && { head: Number(band) }) };
  }

  point(place) {
    const hover = place?.name ? place : null;
    if (JSON.stringify(hover) === JSON.stringify(this.hover)) return;
    this.hover = hover;
    this.soon();
  }

  click(place) {
    if (!place) return;
    const again = place.row === this.model.get("row") && !place.name; // a word that is followed already
    this.put({
      ...(place.row !== undefined && { row: again ? -1 : place.row }),
      ...(place.head !== undefined && { head: place.head }),
    });
  }

  /** Return the number of a row that a stage looks into first, its largest; null where nothing is followed. */
  startOf({ stage, row, head }) {
    const name = stageAt(stage).looksInto;
    if (row < 0 || !name) return null;
    if (name === "scores" || name === "weights")
      return { name, head, row, column: strongest(this.steps, head, row)?.column ?? 0 };
    const sizes = Array.from({ length: this.widthOf(name) }, (_, i) =>
      Math.abs(this.steps.value(name, head, row, i)),
    );
    return { name, head, row, column: sizes.indexOf(Math.max(...sizes.filter(Number.isFinite))) };
  }

  /** Count the numbers in a row of one head's part of a matrix. */
  widthOf(name) {
    const { transposed, boxes } = this.steps.plan.parts[name];
    return transposed ? boxes[0].rows : boxes[0].columns;
  }

  lookAt(cursor) {
    this.cursor = cursor;
    this.soon();
  }

  /** Go to a stage: -1 is the overview. */
  go(stage) {
    this.cursor = null;
    this.put({ stage: clamp(stage, -1, LAST) });
    this.setPlaying(this.playing !== null && stage < LAST);
  }

  /** Go on by itself, a stage after each pause, or stop. */
  setPlaying(plays) {
    clearTimeout(this.playing);
    this.playing = plays ? setTimeout(() => this.go(this.model.get("stage") + 1), PAUSE) : null;
    setText(this.play, plays ? "Pause" : "Play");
  }

  put(values) {
    const most = { stage: LAST, row: this.steps.S - 1, head: this.steps.H - 1 };
    const within = ([name, value]) => [name, clamp(value, name === "head" ? 0 : -1, most[name])];
    super.put(Object.fromEntries(Object.entries(values).map(within)));
  }

  stateCame(state) {
    this.steps = readSteps(state);
    this.picture = new Picture(this.steps, this.palettes);
    this.paper.replaceChildren(this.picture.svg);
    const { S, H, tokens } = this.steps;
    const options = Array.from(
      { length: S },
      (_, i) => new Option(`${i + 1} ${isolateWord(tokens[i], 16)}`, i),
    );
    this.words.replaceChildren(new Option("no word", -1), ...options);
    const buttons = Array.from({ length: H }, (_, h) =>
      makeButton("", `${h}`, () => this.put({ head: h }), `head ${h}`),
    );
    this.heads.replaceChildren(make("span", "", "Head"), ...buttons);
    this.soon();
  }

  // What is shown.

  view() {
    const get = (name, low, high) => clamp(this.model.get(name), low, high);
    const row = get("row", -1, this.steps.S - 1);
    const head = get("head", 0, this.steps.H - 1);
    return {
      stage: get("stage", -1, LAST),
      row,
      head,
      best: row >= 0 ? strongest(this.steps, head, row) : null,
    };
  }

  draw() {
    const zoom = this.paper.clientWidth / this.steps.plan.width; // read before anything is written: one layout, not two
    if (!zoom) return; // it is out of sight
    const [view, narrow] = [this.view(), zoom < LEAST];
    this.picture.zoom(clamp(zoom, LEAST, MOST));
    const pointed = this.hover ?? this.cursor;
    const cell = pointed && { head: view.head, ...pointed };
    const shown = cell ?? this.startOf(view);
    const inside = shown && lookInside(this.steps, shown);
    this.picture.show(view, cell, inside);
    if (narrow && this.stage !== view.stage) this.scrollTo(view.stage);
    this.stage = view.stage;
    this.write(view, inside && (cell || narrow) ? inside.text : ""); // where it is narrow bars may be out of sight
    this.root.dataset.drawn = `${this.steps.serial} ${view.stage} ${view.row} ${view.head}`;
  }

  /** Bring what is highlighted into sight, where the picture is wider than its place. */
  scrollTo(stage) {
    const { highlights = [] } = stageAt(stage);
    const parts = highlights.map((name) => this.steps.plan.parts[name]).filter(Boolean);
    const left = parts.length ? (Math.min(...parts.map(({ x }) => x)) - 80) * LEAST : 0;
    this.paper.scrollTo({ left });
  }

  write({ stage, row, head }, text) {
    setText(this.sentence, sentenceOf(this.steps, { stage, row, head }));
    setText(this.count, stage < 0 ? "Overview" : `${stage + 1} of ${LAST + 1}`);
    this.back.setAttribute("aria-disabled", stage < 0);
    this.next.setAttribute("aria-disabled", stage === LAST);
    this.words.value = row;
    for (const [h, button] of this.heads.querySelectorAll("button").entries())
      button.ariaPressed = `${h === head}`;
    setText(
      this.readout,
      text || "Click a word to follow it; point at a number to see what it is made of.",
    );
    this.speaker.speak(text);
  }
}

function render(context) {
  const scene = new Scene(context);
  return () => scene.remove();
}

export default { render: inView(render) };
