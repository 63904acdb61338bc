// A model's training as a film: its heads, a sentence with arcs, and curves; live while it trains, then a player.

import { Arcs } from "../../widgets/arcs.js";
import {
  bytesOf,
  catchKeys,
  followModel,
  isolateWord,
  make,
  makeButton,
  makeSpeaker,
  setText,
  svg,
} from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { paintCells, palettesOf } from "../../widgets/matrix.js";
import { makePlayer } from "../../widgets/player.js";

/**
 * @typedef {object} FilmOptions Its options besides those of every player; steps are snapshots.
 * @property {string[]} tokens S words.
 * @property {number} column The word that the followed one should find.
 * @property {number} steps How many steps the training has.
 * @property {number} every Steps from snapshot to snapshot.
 * @property {string[]} colours Of heads, the first again after the last.
 * @property {DataView} plain 256 colours from 0 to 1, four bytes a colour.
 *
 * @typedef {object} FilmState
 * @property {number} heads
 * @property {DataView} weights N snapshots × heads × S × S, a byte each; 255 is weight 1.
 * @property {DataView} losses One for each step so far, a mean of the last ones, as float32.
 */

const ARCS = 190; // pixels of the sentence and its arcs
const [WIDE, TALL, LEFT, BELOW] = [264, 96, 24, 16]; // of a picture of curves, and its margins
const CELL = 9; // pixels of a cell of a map, as in film.css
const list = (length, made) => Array.from({ length }, (_, i) => made(i));

/** Make a small picture of lines over `steps` steps, which have their positions before any number is known. */
function makeCurves(title, count, steps) {
  const lines = list(count, () => svg("path", { class: "line" }));
  const [top, now] = [svg("text", { x: LEFT - 5, y: 12 }), svg("path", { class: "now" })];
  const axes = svg("path", { class: "axes", d: `M${LEFT} 4V${TALL - BELOW}H${WIDE - 2}` });
  const zero = svg("text", { x: LEFT - 5, y: TALL - BELOW }, "0");
  const last = svg("text", { x: WIDE - 2, y: TALL - 2 }, `step ${steps}`);
  const size = { width: WIDE, height: TALL, "aria-hidden": "true" };
  const heading = make("b", "", title);
  const picture = svg("svg", size, axes, top, zero, last, ...lines, now);
  const x = (step) => LEFT + (step / steps) * (WIDE - LEFT - 6);
  /** Draw a line of numbers, one for every `every` steps; `high` is the number at the top. */
  function draw(line, values, every, high) {
    top.textContent = high;
    const y = (value) => 5 + (1 - value / high) * (TALL - BELOW - 6);
    const points = Array.from(values, (value, i) => `${x(i * every)} ${y(value)}`);
    lines[line].setAttribute("d", points.length ? `M${points.join("L")}` : "");
  }
  const show = (step) => now.setAttribute("d", `M${x(step)} 4V${TALL - BELOW}`);
  return { node: make("div", "curves", heading, picture), heading, lines, draw, show };
}

/** Make the button of a head: its map, in which the followed row and the column of a word are framed and named. */
function makeHead(head, word, column, choose) {
  const [canvas, across, down] = [make("canvas"), make("i", "row"), make("i", "column")];
  const [key, query, weight] = [make("span", "key", word), make("span", "query"), make("span")];
  const cells = make("span", "cells", canvas, across, down, key, query);
  cells.ariaHidden = "true";
  const button = makeButton("map", "", choose);
  button.append(make("b", "", `head ${head}`), cells, weight);
  key.style.left = `${(column + 0.5) * CELL}px`;
  down.style.left = `${column * CELL}px`;
  function show(values, S, row, from, colours) {
    paintCells(canvas, { values, rows: S, columns: S }, colours);
    across.style.top = query.style.top = `${row * CELL}px`;
    setText(query, from);
    setText(weight, `${from} → ${word} ${values[row * S + column].toFixed(2)}`);
  }
  return { button, show };
}

class Film {
  constructor({ model, el }) {
    this.model = model;
    /** @type {FilmOptions} */
    this.options = model.get("options");
    const { tokens, column, steps, plain } = this.options;
    this.words = tokens.map((token) => isolateWord(token));
    this.colours = { palette: palettesOf({ plain }).plain, low: 0, high: 1 };
    this.H = model.get("state").heads;
    [this.at, this.pointed, this.speaker] = [0, null, makeSpeaker()];
    const onHover = (row) => this.drawArcs((this.pointed = row));
    this.arcs = new Arcs({ onHover, onFollow: (row) => this.choose("row", row) });
    const choose = (head) => () => this.choose("head", head);
    this.heads = list(this.H, (h) => makeHead(h, this.words[column], column, choose(h)));
    [this.loss, this.rise] = [makeCurves("Loss", 1, steps), makeCurves("", this.H, steps)];
    // Arrow keys on a word go from word to word, before the player takes them.
    const release = catchKeys(this.arcs.node, (event) => this.arcs.press(event));
    this.player = makePlayer({ model, el }, "mha-film", "A training as a film", (to) =>
      this.draw((this.at = to)),
    );
    this.sentence = make("p", "sentence");
    const maps = make("div", "maps", ...this.heads.map(({ button }) => button));
    const charts = make("div", "charts", this.loss.node, this.rise.node);
    const body = make("div", "body", maps, charts);
    this.player.root.append(this.sentence, this.arcs.node, body, this.speaker.node);
    const size = new ResizeObserver(() => this.drawArcs((this.width = this.arcs.node.clientWidth)));
    const unfollow = followModel(model, ["state", "row", "head"], () => this.follow());
    this.player.stops.push(release, unfollow, this.speaker.stop, () => size.disconnect());
    this.follow();
    this.player.follow();
    size.observe(this.arcs.node);
  }

  choose(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }

  /** Return what is shown: a snapshot, a head, and the row of a word. */
  view() {
    const [head, row] = ["head", "row"].map((name) => this.model.get(name));
    return { shown: Math.min(this.at, this.newest), head, row };
  }

  /** Return a head's weights at a snapshot, (S, S). */
  weightsOf(snapshot, head) {
    const size = this.words.length ** 2;
    const start = (snapshot * this.H + head) * size;
    return Float32Array.from(this.weights.subarray(start, start + size), (byte) => byte / 255);
  }

  follow() {
    /** @type {FilmState} */
    const { weights, losses } = this.model.get("state");
    [this.weights, this.losses] = [bytesOf(weights), new Float32Array(bytesOf(losses).buffer)];
    this.newest = this.weights.length / (this.H * this.words.length ** 2) - 1;
    this.drawCurves();
    this.draw();
  }

  /** Draw what does not change from snapshot to snapshot. */
  drawCurves() {
    const { column, every } = this.options;
    const { row, head } = this.view();
    this.loss.draw(0, this.losses, 1, Math.max(1, Math.round(this.losses[0] ?? 1)));
    setText(this.rise.heading, `Weight from ${this.words[row]} to ${this.words[column]}`);
    const S = this.words.length;
    for (let h = 0; h < this.H; h++) {
      const weights = list(this.newest + 1, (n) => this.weightsOf(n, h)[row * S + column]);
      this.rise.draw(h, weights, every, 1);
      this.rise.lines[h].classList.toggle("chosen", h === head);
    }
  }

  drawArcs() {
    const { shown, head, row } = this.view();
    if (!this.width) return; // it is out of sight
    const { tokens, colours } = this.options;
    const style = { colour: colours[head % colours.length], width: this.width, height: ARCS };
    const [weights, follow] = [this.weightsOf(shown, head), this.pointed ?? row];
    this.arcs.draw({ queries: tokens, keys: tokens, weights, follow, ...style });
  }

  draw() {
    const { shown, head, row } = this.view();
    const [S, word] = [this.words.length, this.words[row]];
    const step = Math.min(shown * this.options.every, this.options.steps);
    this.heads.forEach(({ button, show }, h) => {
      button.ariaPressed = `${h === head}`;
      show(this.weightsOf(shown, h), S, row, word, this.colours);
    });
    for (const curves of [this.loss, this.rise]) curves.show(step);
    this.drawArcs();
    const loss = this.losses[Math.max(step, 1) - 1];
    const now = `step ${step} of ${this.options.steps}${loss ? `, loss ${loss.toFixed(2)}` : ""}`;
    this.player.say(now);
    const weights = this.weightsOf(shown, head).subarray(row * S, row * S + S);
    const largest = Math.max(...weights);
    const best = this.words[weights.indexOf(largest)];
    const reading = `In head ${head}, “${word}” attends most to “${best}”: ${largest.toFixed(2)}.`;
    setText(this.sentence, reading);
    this.speaker.speak(`${now}. ${reading}`);
    this.player.root.dataset.drawn = `${shown} ${row} ${head}`;
  }
}

const render = (context) => new Film(context).player.end;

export default { render: inView(render) };
