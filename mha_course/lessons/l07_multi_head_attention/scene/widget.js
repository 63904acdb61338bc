// The whole of multi-head attention in one picture: you can step, follow and inspect it without a kernel.

import { makeControls } from "../../../widgets/controls.js";
import { clamp, isolateWord, make, makeButton, setText } from "../../../widgets/dom.js";
import { inView } from "../../../widgets/in_view.js";
import { palettesOf } from "../../../widgets/matrix.js";
import { Frame, still } from "../../../widgets/player.js";
import { showValues } from "../../../widgets/protocol.js";
import { Stage } from "../../../widgets/stage.js";
import { Brush } from "./brush.js";
import { indices } from "./layout.js";
import { Motion } from "./motion.js";
import { lookInside, readSteps, strongest } from "./numbers.js";
import { Picture } from "./picture.js";
import { STAGES, sentenceOf, stageAt } from "./stages.js";

/**
 * @typedef {object} SceneOptions
 * @property {boolean} asks Whether there is a learner's function.
 * @property {import("../../../widgets/controls.js").ControlSpec[]} controls The field for a sentence, where the function takes one.
 * @property {Object<string, DataView>} palettes weights, signed and signed_on_dark: 256 colours each, four bytes a colour.
 *
 * @typedef {object} SceneEvent The learner's function is to be called.
 * @property {{ sentence: string }} [moved] With this sentence, where it takes one.
 */

const [LEAST, MOST] = [0.82, 1]; // how far the picture follows its place; where there is less it scrolls
const LAST = STAGES.length - 1;
const PAUSE = 1800; // milliseconds between two stages while it plays
const READING = 5000; // the same where nothing moves
const WORDS = { back: "Back", play: "Play", pause: "Pause", next: "Next" };
const ARROWS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
const IDLE = "Choose a word to follow it, or a number to see what it is made of.";
const KEYS =
  "In the picture: Space or → plays the next stage, ← goes back, Escape to the overview; ↑ and ↓ follow another word, " +
  "Page Up and Page Down another head. Enter looks inside: arrow keys then go from number to number, Escape leaves.";

class Scene extends Stage {
  constructor({ model, el }) {
    super(model);
    this.hover = this.cursor = null;
    const { palettes, controls } = model.get("options");
    this.palettes = palettesOf(palettes);
    this.brush = new Brush(this.palettes);
    this.motion = new Motion(this.brush);
    this.position = model.get("stage") + 1; // 0 is the overview; a stage with number n is done at n + 1
    this.controls = makeControls(controls, this.kernel.move);
    this.build();
    this.start(el, ["stage", "row", "head"]);
    this.stops.push(() => this.walk.stop());
  }

  build() {
    this.walk = new Frame({
      at: () => this.position,
      last: () => STAGES.length,
      go: (to) => this.seek(to),
      wait: () => (still() ? READING : PAUSE),
      seconds: (step) => STAGES[step - 1].seconds,
      words: WORDS,
    });
    this.words = make("select", "follow");
    this.words.addEventListener("change", () => this.follow({ row: Number(this.words.value) }));
    const follow = make("label", "", make("span", "", "Follow"), this.words);
    this.heads = make("div", { className: "heads", role: "group", ariaLabel: "Head" });
    this.sentence = make("p", { className: "sentence", ariaLive: "polite" });
    this.board = make("div", "board");
    const place = { className: "paper", tabIndex: 0, role: "application", ariaLabel: KEYS };
    this.paper = make("div", place, this.board, this.brush.probes);
    this.paper.ariaRoleDescription = "picture";
    this.readout = make("p", "readout");
    const name = { role: "group", ariaLabel: "Multi-head attention as a whole" };
    this.root = make("div", { className: "mha-scene mha-picture", ...name });
    const filled = () => this.root.matches(":fullscreen");
    const fill = () => (filled() ? document.exitFullscreen() : this.root.requestFullscreen());
    const screen = makeButton("screen", "Full screen", fill);
    this.root.onfullscreenchange = () =>
      setText(screen, filled() ? "Leave full screen" : "Full screen");
    screen.hidden = !document.fullscreenEnabled;
    const { back, next, play, scrub, count } = this.walk;
    scrub.ariaLabel = "Position in the pass";
    const bar = make("div", "bar", back, next, play, scrub, count, follow, this.heads);
    const keys = make("details", "keys", make("summary", "", "Keys"), make("p", "", KEYS));
    const below = make("div", "below", ...this.asking(), screen, keys);
    this.root.append(bar, this.sentence, this.paper, this.readout, this.speaker.node, below);
    this.paper.addEventListener("pointermove", (event) => this.point(this.placeOf(event)));
    this.paper.addEventListener("pointerleave", () => this.point(null));
    this.paper.addEventListener("click", (event) => this.click(this.placeOf(event), event));
    this.paper.addEventListener("transitionend", () => this.soon()); // of its colour, in another theme
  }

  /** Return the button for the learner's function, hidden if there is none, or no kernel. */
  asking() {
    const fields = [...this.controls.values()].map(({ node }) => node);
    const field = fields[0]?.querySelector("input");
    const ask = () => (field ? this.kernel.move("sentence", field.value) : this.kernel.send({}));
    const button = makeButton("recompute", "Recompute", ask);
    const nodes = [...fields, button, make("div", "said", this.trouble, this.source)];
    for (const node of nodes) node.hidden = !this.model.get("options").asks || !this.model.send;
    return nodes;
  }

  /** Handle a key in the picture, and return whether it was one of ours. */
  answer({ key }, target) {
    const { walk } = this;
    if (target === walk.scrub) return walk.press(key, target);
    if (target !== this.paper) return false;
    const { stage, row, head } = this.view();
    const actions = {
      " ": () => walk.stepOn(),
      ArrowRight: () => walk.stepOn(),
      ArrowLeft: () => walk.stepBack(),
      ArrowDown: () => this.put({ row: row + 1 }),
      ArrowUp: () => this.put({ row: Math.max(row - 1, 0) }),
      PageUp: () => this.put({ head: head - 1 }),
      PageDown: () => this.put({ head: head + 1 }),
      Enter: () => this.lookAt(this.startOf({ stage, head, row: Math.max(row, 0) })),
      Escape: () => (this.cursor ? this.lookAt(null) : walk.jump(0)),
    };
    if (this.cursor && Object.hasOwn(ARROWS, key)) this.moveCursor(...ARROWS[key]);
    else if (Object.hasOwn(actions, key)) actions[key]();
    else return false;
    return true;
  }

  // What the learner does.

  /** Return what is under the pointer. */
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
    const { rows, columns } = plan.parts[part].boxes[0][0];
    const [y, x] = [at(rows, down), at(columns, across)];
    const [row, column] = plan.parts[part].transposed ? [x, y] : [y, x];
    return { name: part, row, column, ...(plan.parts[part].bands > 1 && { head: Number(band) }) };
  }

  point(place) {
    this.hover = place?.name ? place : null;
    this.soon();
  }

  click(place, { pointerType }) {
    if (pointerType === "touch") this.lookAt(place?.name ? place : null); // a finger cannot hover
    if (!place) return;
    const { name, row, head } = place;
    if (row !== undefined) this.put({ row: row === this.model.get("row") && !name ? -1 : row }); // unfollow
    if (head !== undefined) this.put({ head });
  }

  /** Return the number that a stage inspects first, a row's largest; null if nothing is followed. */
  startOf({ stage, row, head }) {
    const name = stageAt(stage).looksInto;
    if (row < 0 || !name) return null;
    const numbers = name === "scores" ? "weights" : name; // the key with the largest weight
    const size = (i) => Math.abs(this.steps.value(numbers, head, row, i));
    const sizes = indices(this.steps.widthOf(name)).map(size);
    return { name, head, row, column: sizes.indexOf(Math.max(...sizes.filter(Number.isFinite))) };
  }

  /** Follow another word or head, out of the number that was looked into. */
  follow(values) {
    this.cursor = null;
    this.put(values);
  }

  lookAt(cursor) {
    this.cursor = cursor;
    this.soon();
  }

  moveCursor(down, right) {
    const { S, widthOf } = this.steps;
    const row = clamp(this.cursor.row + down, 0, S - 1);
    const column = clamp(this.cursor.column + right, 0, widthOf(this.cursor.name) - 1);
    this.lookAt({ ...this.cursor, row, column });
  }

  /** Go to a position, out of the number that was looked into, and draw it in this frame, as motion needs it. */
  seek(position) {
    Object.assign(this, { position, cursor: null });
    const stage = Math.ceil(position) - 1;
    if (this.model.get("stage") !== stage) this.put({ stage });
    if (this.size && this.root.isConnected) this.paint();
  }

  /** Take the stage that was set elsewhere. */
  followStage() {
    const done = clamp(this.model.get("stage"), -1, LAST) + 1;
    if (done === Math.ceil(this.position)) return;
    this.walk.stop();
    this.position = done;
  }

  put(values) {
    const most = { stage: LAST, row: this.steps.S - 1, head: this.steps.H - 1 };
    for (const [name, value] of Object.entries(values))
      super.put({ [name]: clamp(value, name === "head" ? 0 : -1, most[name]) });
  }

  stateCame(state) {
    if (this.kernel.idle()) showValues(this.controls, state);
    const before = this.steps?.words;
    this.steps = readSteps(state);
    if (before) this.keepWord(before, state.words);
    this.makePicture();
    this.size = null; // it is drawn when its size is known
    const { S, H, tokens } = this.steps;
    const option = (i) => new Option(`${i + 1} ${isolateWord(tokens[i], 16)}`, i);
    this.words.replaceChildren(new Option("no word", -1), ...indices(S).map(option));
    const button = (head) => makeButton("", `${head}`, () => this.follow({ head }), `head ${head}`);
    this.heads.replaceChildren(make("span", "", "Head"), ...indices(H).map(button));
    this.soon();
  }

  // What is shown.

  /** Make the picture of these numbers, in the colours of the page's theme. */
  makePicture() {
    this.brush.take(this.steps);
    this.picture = new Picture(this.steps, this.brush);
    this.board.replaceChildren(this.picture.svg, this.brush.canvas);
    this.theme = this.palettes.signed;
  }

  view() {
    const row = clamp(this.model.get("row"), -1, this.steps.S - 1);
    const head = clamp(this.model.get("head"), 0, this.steps.H - 1);
    const stage = Math.ceil(this.position) - 1;
    const fraction = stage < 0 ? 1 : this.position - stage;
    const best = row >= 0 ? strongest(this.steps, head, row) : null;
    return { stage, fraction, row, head, best };
  }

  draw() {
    this.followStage();
    this.measure();
    if (this.size) this.paint();
  }

  /** Measure the picture and its colours before writing anything, so that the page is laid out only once. */
  measure() {
    const { clientWidth, clientHeight } = this.paper;
    const { width, height } = this.steps.plan;
    const most = this.root.matches(":fullscreen") ? Math.max(clientHeight / height, LEAST) : MOST;
    this.narrow = clientWidth / width < LEAST;
    this.size = clientWidth && clamp(clientWidth / width, LEAST, most);
    if (!this.size) return; // it is out of sight
    const grown = this.board.getBoundingClientRect().width / this.board.offsetWidth || 1; // on a slide
    if (this.theme !== this.palettes.signed) this.makePicture();
    this.brush.prepare(this.steps.plan, this.size * grown);
    this.root.classList.toggle("narrow", this.narrow);
    this.board.style.setProperty("--small", Math.min(1, this.size)); // words are never smaller than their size
    this.board.style.width = `${width * this.size}px`;
    this.board.style.height = `${height * this.size}px`;
  }

  paint() {
    const view = this.view();
    const pointed = view.fraction < 1 ? null : (this.hover ?? this.cursor); // only while nothing moves
    const cell = pointed && { head: view.head, ...pointed };
    const shown = cell ?? this.startOf(view);
    const inside = shown && lookInside(this.steps, shown);
    this.bringInSight(view.stage);
    this.motion.draw(view);
    this.picture.show(view, cell, inside);
    this.write(view, inside && (cell || view.fraction === 1) ? inside.text : "");
    const { serial } = this.steps;
    this.root.dataset.drawn = `${serial} ${view.stage} ${view.row} ${view.head} ${view.fraction}`;
  }

  /** If the picture is wider than its space, scroll to a stage's beginning, and to the bars below it. */
  bringInSight(stage) {
    const { parts, bars, width } = this.steps.plan;
    const seen = this.paper.clientWidth / this.size;
    const first = parts[stageAt(stage).highlights?.[0]];
    const left = first ? clamp(first.x - 80, 0, width - seen) : 0;
    const room = parts.v.x > left ? Math.min(parts.v.x - left, seen) : seen;
    if (this.narrow) Object.assign(bars, { left: left + 12, room: room - 24 });
    else Object.assign(bars, { left: 76, room: 604 });
    if (this.narrow && this.stage !== stage) this.paper.scrollTo({ left: left * this.size });
    this.stage = stage;
  }

  write({ stage, fraction, row, head }, text) {
    setText(this.sentence, sentenceOf(this.steps, { stage, row, head }));
    const { name } = stageAt(stage);
    this.walk.show(stage < 0 ? "Overview" : `${stage + 1} of ${STAGES.length} · ${name}`, name);
    this.words.value = row;
    for (const [h, button] of this.heads.querySelectorAll("button").entries())
      button.ariaPressed = `${h === head}`;
    setText(this.readout, text || IDLE);
    this.root.classList.toggle("explained", Boolean(text) || fraction < 1);
    if (text !== this.spoken) this.speaker.speak(text);
    this.spoken = text;
  }
}

function render(context) {
  const scene = new Scene(context);
  return () => scene.remove();
}

export default { render: inView(render) };
