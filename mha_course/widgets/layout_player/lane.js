// One trace: its steps, its strips of memory, and the tensor read from one of them.

import { make, makeButton } from "../dom.js";
import { fade, fly, spotOf, still } from "../player.js";
import { makeBoxes } from "./boxes.js";

const FLIGHT = 900; // milliseconds, as the next two
const SPREAD = 900;
const WRITE = 2600;
const LONGEST = 12; // cells of a strip that stay together

/** Give each element of a frame a key; a number may be read more than once, and is then as many cells. */
function keysOf({ ids }) {
  const seen = {};
  return ids.map((id) => `${id}/${(seen[id] = (seen[id] ?? -1) + 1)}`);
}

/** Say what a step did: what is wrong takes the place of what became of memory and strides. */
function makeSentence({ sentence, mixing, warning }) {
  const texts = [mixing && `${mixing}.`, warning].filter(Boolean);
  const warnings = texts.map((text) => `⚠ ${text[0].toUpperCase()}${text.slice(1)}`);
  return make("p", warnings.length ? "warning" : "", warnings.join("\n") || sentence);
}

/** Make the chip of an axis: its name, its size and its stride. */
function makeChip({ axes, colors, shape, strides }, i) {
  const size = `${shape[i]}`;
  const name = make("b", "", ["?", size].includes(axes[i]) ? size : `${axes[i]} = ${size}`);
  name.style.background = colors[i];
  return make("span", "chip", name, make("small", "", `stride ${strides[i]}`));
}

export class Lane {
  constructor({ cells, strips, frames }, go) {
    Object.assign(this, { cells, frames, timer: null });
    this.drawn = new Map(); // the cells of the tensor, by their keys
    this.run = frames.map(({ shape }) => shape.at(-1)).find((size) => size <= LONGEST) ?? 1;
    this.steps = frames.map((frame, i) => this.makeStep(frame, i, go));
    this.strips = strips.map((places, number) => this.makeStrip(places, number));
    this.sentences = frames.map(makeSentence);
    const attributes = { className: "sentence", ariaLive: "polite" };
    const sentence = make("div", attributes, ...this.sentences); // the highest keeps the place for all
    this.reading = make("div", "reading");
    this.board = make("div", "board");
    const memory = make("div", "memory narrow", ...this.strips.map(({ node }) => node));
    for (const picture of [memory, this.board]) picture.ariaHidden = true; // the sentence says it
    const crumbs = make("ol", "crumbs", ...this.steps.map((step) => make("li", "", step)));
    this.node = make("section", "lane", crumbs, sentence, memory, this.reading, this.board);
    this.node.onpointerover = ({ target }) => this.markSame(target.closest(".cell")?.dataset.id);
    this.node.onpointerleave = () => this.markSame();
  }

  makeStep({ call, line, storage }, i, go) {
    const step = makeButton(`step ${storage}`, make("code", "", call), () => go(i));
    if (i) step.append(make("span", "kind", storage));
    step.title = line;
    return step;
  }

  makeCell(id, place, strip, words) {
    const { fill, owner } = this.cells[id];
    const cell = make("div", "cell", make("b", "", `${place}`), make("small", "", words));
    cell.style.backgroundColor = fill;
    cell.dataset.id = id;
    cell.title = `place ${place} of strip ${strip + 1}${strip ? `, first at ${id}` : ""}: ${owner}`;
    return cell;
  }

  makeStrip(places, number) {
    const cells = places.map(([place, id]) =>
      this.makeCell(id, place, number, number ? `was ${id}` : this.cells[id].owner),
    );
    const label = make("div", "label");
    const runs = make("div", "runs");
    for (let i = 0; i < cells.length; i += this.run)
      runs.append(make("div", "run", ...cells.slice(i, i + this.run)));
    return { node: make("div", "strip", label, runs), label, cells };
  }

  /** Mark the cells that hold the same number. */
  markSame(id) {
    for (const cell of this.node.querySelectorAll(".cell"))
      cell.classList.toggle("same", cell.dataset.id === id);
  }

  /** Show a frame: a copy first writes its strip, then the cells go to their places. Return how long it takes. */
  show(at, from) {
    const last = this.frames.length - 1;
    const number = Math.min(at, last);
    const before = Math.min(from, last);
    if (number === before) return 0;
    const frame = this.frames[number];
    clearTimeout(this.timer);
    for (const flight of this.node.getAnimations({ subtree: true })) flight.cancel();
    this.describe(frame, number);
    if (from < 0 || Math.abs(number - before) > 1 || still()) {
      this.draw(frame, null);
      return 0;
    }
    const spread = number > before ? SPREAD : 0;
    if (number < before || frame.storage !== "copy") {
      this.draw(frame, spread);
      return spread + FLIGHT;
    }
    this.writeStrip(frame.strip);
    this.timer = setTimeout(() => this.draw(frame, spread), WRITE);
    return WRITE + spread + FLIGHT;
  }

  describe(frame, number) {
    this.steps.forEach((step, i) => (step.ariaCurrent = i === number ? "step" : null));
    this.sentences.forEach((node, i) => node.classList.toggle("now", i === number));
    this.strips.forEach(({ node, label }, i) => {
      node.hidden = i > frame.strip;
      const name = this.strips.length > 1 ? `memory, strip ${i + 1}` : "memory";
      const read = frame.storage === "copy" ? "written anew" : "unchanged, no number moved";
      label.textContent = number
        ? `${name}: ${i < frame.strip ? "unchanged, no longer read" : read}`
        : name;
    });
  }

  /** Let the numbers of a copy go from the previous strip to their places in the new one. */
  writeStrip(number) {
    const { cells } = this.strips[number];
    const before = this.strips[number - 1].cells.map((cell) => [cell.dataset.id, spotOf(cell)]);
    const starts = new Map(before);
    const ends = cells.map(spotOf);
    const duration = FLIGHT * 0.7;
    cells.forEach((cell, i) => {
      cell.classList.remove("unread");
      const delay = (i / cells.length) * (WRITE - duration);
      fly(cell, starts.get(cell.dataset.id), ends[i], { duration, delay }, 0);
    });
  }

  /** Draw the tensor; with a spread, in milliseconds, its cells fly from where they are, one after the other. */
  draw(frame, spread) {
    const starts = new Map([...this.drawn].map(([key, cell]) => [key, spotOf(cell)]));
    const cells = frame.ids.map((id, i) =>
      this.makeCell(id, frame.places[i], frame.strip, this.cells[id].tag),
    );
    for (const i of frame.odd) cells[i].classList.add("odd");
    this.drawn = new Map(keysOf(frame).map((key, i) => [key, cells[i]]));
    const { shape } = frame;
    this.board.style.setProperty("--columns", shape.at(-1) ?? 1);
    this.board.style.setProperty("--boxes", shape.at(-3) ?? 1);
    this.board.style.setProperty("--depth", Math.max(0, shape.length - 2));
    this.board.replaceChildren(makeBoxes(frame, this.cells, cells));
    this.drawReading(frame);
    if (spread === null) return;
    const ends = cells.map(spotOf);
    [...this.drawn.keys()].forEach((key, i) => {
      const start = starts.get(key);
      const timing = { duration: FLIGHT, delay: (i / cells.length) * spread };
      fly(cells[i], start ?? ends[i], ends[i], timing, start ? 1 : 0);
    });
    for (const mark of this.board.querySelectorAll(".mark")) fade(mark, spread + FLIGHT);
  }

  /** Say how the strip is read: axes, sizes and strides; cells that are not read are pale. */
  drawReading(frame) {
    this.strips.forEach(({ cells }, i) => {
      const read = new Set(i === frame.strip ? frame.ids : []);
      for (const cell of cells)
        cell.classList.toggle("unread", i <= frame.strip && !read.has(Number(cell.dataset.id)));
    });
    const label = make("span", "label", frame.odd.length ? "read as if it were" : "read as");
    this.reading.replaceChildren(label, ...frame.shape.map((_, i) => makeChip(frame, i)));
  }
}
