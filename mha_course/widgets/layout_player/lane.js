// One trace: its steps, its strips of memory, and the tensor as it is read from one of them.

import { make, makeButton, say } from "../dom.js";
import { at, plan, planStrips, spans } from "./plan.js";

const [FLIGHT, SPREAD, WRITE] = [900, 900, 2600]; // milliseconds
const [GAP, LABEL] = [10, 20]; // pixels between strips, and of what stands above each
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Give each element of a frame a key; a number may be read more than once, and is then as many cells. */
function keysOf({ ids }) {
  const seen = {};
  return ids.map((id) => `${id}/${(seen[id] = (seen[id] ?? -1) + 1)}`);
}

/** Name a strip of memory, by its number where there are several, and say what became of it. */
function stripWords(number, count, what) {
  return `memory${count > 1 ? `, strip ${number + 1}` : ""}${what ? `: ${what}` : ""}`;
}

/** Make the name or the border of an axis, or of a box. */
function makeMark({ kind, x, y, w, h, text, color }) {
  const label = make("span", "", `${text ?? ""}`);
  const mark = make("div", `mark ${kind}`, label);
  mark.style.cssText = `left:${x}px;top:${y}px;width:${w}px;height:${h}px`;
  if (color) (kind.startsWith("name") ? label : mark).style[kind === "box" ? "borderColor" : "background"] = color;
  return mark;
}

/** Make the chip of an axis: its name, its size and its stride. */
function makeChip(frame, i) {
  const [axis, size] = [frame.axes[i], frame.shape[i]];
  const name = make("b", "", axis === "?" || axis === `${size}` ? `${size}` : `${axis} = ${size}`);
  name.style.background = frame.colors[i];
  return make("span", "chip", name, make("small", "", `stride ${frame.strides[i]}`));
}

export class Lane {
  constructor(lane, go) {
    this.lane = lane;
    this.frames = lane.frames;
    [this.shown, this.timer, this.plans, this.marks, this.flights] = [0, null, [], [], []];
    this.spots = new Map(); // where the cells of the tensor are
    this.steps = lane.frames.map((frame, i) => this.makeStep(frame, i, go));
    this.sentence = make("p", "sentence");
    this.sentence.setAttribute("aria-live", "polite");
    [this.memory, this.reading, this.board] = [make("div", "board"), make("div", "reading"), make("div", "board")];
    for (const picture of [this.memory, this.board]) picture.setAttribute("aria-hidden", "true"); // the sentence says it
    this.stage = make("div", "stage", this.memory, this.reading, this.board);
    this.warning = make("p", "warning");
    const crumbs = make("ol", "crumbs", ...this.steps.map((step) => make("li", "", step)));
    this.node = make("section", "lane", crumbs, this.sentence, this.stage, this.warning);
    this.strips = lane.strips.map((places, number) => this.makeStrip(places, number));
    this.keys = lane.frames.map(keysOf);
    this.pool = new Map(); // a cell for each key
    for (const key of new Set(this.keys.flat())) this.pool.set(key, this.makeCell(parseInt(key)));
    this.board.append(...this.pool.values());
    this.stage.addEventListener("pointerover", (event) => this.light(event.target.closest(".cell")?.dataset.id));
    this.stage.addEventListener("pointerleave", () => this.light());
  }

  makeStep({ call, line, storage }, i, go) {
    const step = makeButton(`step ${storage}`, make("code", "", call), () => go(i));
    if (i) step.append(make("span", "kind", storage));
    step.title = line;
    return step;
  }

  makeCell(id) {
    const { fill, tag } = this.lane.cells[id];
    const cell = make("div", "cell", make("b"), make("small", "", tag));
    cell.style.backgroundColor = fill;
    cell.dataset.id = id;
    return cell;
  }

  makeStrip(places, number) {
    const cells = places.map(([place, id]) => {
      const cell = this.makeCell(id);
      this.write(cell, place, number, false);
      cell.lastChild.textContent = number ? `was ${id}` : this.lane.cells[id].whose;
      return cell;
    });
    const label = make("div", "label");
    this.memory.append(label, ...cells);
    return { label, cells, spots: [], end: 0 };
  }

  write(cell, place, strip, odd) {
    const first = strip ? `, first at ${cell.dataset.id}` : "";
    cell.title = `place ${place} of strip ${strip + 1}${first}: ${this.lane.cells[cell.dataset.id].whose}`;
    cell.firstChild.textContent = place;
    cell.classList.toggle("odd", odd);
  }

  /** Mark the cells that hold the same number. */
  light(id) {
    for (const cell of this.node.querySelectorAll(".cell")) cell.classList.toggle("same", cell.dataset.id === id);
  }

  resize(width, unit) {
    this.plans = this.frames.map((frame) => plan(frame, width, unit));
    this.putStrips(width);
    this.show(this.shown, false);
    const heights = this.plans.map(({ height }, i) => height + this.strips[this.frames[i].strip].end);
    const tallest = Math.max(...heights) + this.reading.offsetHeight;
    this.stage.style.minHeight = `${Math.min(tallest, 640)}px`; // so that little moves below
  }

  putStrips(width) {
    const { across, unit, narrow, tall } = planStrips(this.lane, width);
    this.memory.style.setProperty("--unit", `${unit}px`);
    this.memory.style.setProperty("--tall", `${tall}px`);
    this.memory.classList.toggle("narrow", narrow);
    let y = 0;
    for (const strip of this.strips) {
      const top = y + LABEL;
      strip.label.style.transform = at([0, y]);
      strip.spots = strip.cells.map((_, i) => [(i % across) * unit, top + Math.floor(i / across) * tall]);
      strip.cells.forEach((cell, i) => (cell.style.transform = at(strip.spots[i])));
      y = top + Math.ceil(strip.cells.length / across) * tall + GAP;
      strip.end = y;
    }
  }

  /** Show a frame: a copy first writes its strip, then the cells of the tensor go to their places. Return how long it takes. */
  show(wanted, near) {
    const number = Math.min(wanted, this.frames.length - 1);
    if (near && number === this.shown) return 0;
    const [frame, forward] = [this.frames[number], number === this.shown + 1];
    clearTimeout(this.timer);
    this.flights.splice(0).forEach((flight) => flight.cancel());
    this.tell(frame, number);
    this.shown = number;
    if (!this.plans.length) return 0; // not laid out yet
    if (!near || still()) {
      this.drawGrid(number, null);
      return 0;
    }
    const spread = forward ? SPREAD : 0;
    if (!forward || frame.storage !== "copy") {
      this.drawGrid(number, spread);
      return spread + FLIGHT;
    }
    this.writeStrip(frame.strip);
    this.timer = setTimeout(() => this.drawGrid(number, spread), WRITE);
    return WRITE + spread + FLIGHT;
  }

  tell(frame, number) {
    this.steps.forEach((step, i) => step[i === number ? "setAttribute" : "removeAttribute"]("aria-current", "step"));
    say(this.sentence, frame.sentence);
    const texts = [frame.mixing && `${frame.mixing}.`, frame.warning].filter(Boolean);
    this.warning.textContent = texts.map((text) => `⚠ ${text[0].toUpperCase()}${text.slice(1)}`).join("\n");
    this.warning.hidden = !texts.length;
    this.strips.forEach(({ label, cells }, i) => {
      for (const node of [label, ...cells]) node.hidden = i > frame.strip;
      const written = i === frame.strip && frame.storage === "copy";
      const what = written ? "written anew" : number ? "unchanged, no number moved" : "";
      label.textContent = stripWords(i, this.strips.length, what);
    });
    this.memory.style.height = `${this.strips[frame.strip].end}px`;
  }

  fly(node, path, timing) {
    this.flights.push(node.animate(path, { ...timing, fill: "backwards" }));
  }

  /** Let the numbers of a copy go from the strip before to their places in the new one. */
  writeStrip(number) {
    const [{ cells, spots }, before, each] = [this.strips[number], this.strips[number - 1], FLIGHT * 0.7];
    const old = new Map(before.cells.map((cell, i) => [cell.dataset.id, before.spots[i]]));
    cells.forEach((cell, i) => {
      cell.classList.remove("unread");
      const start = { transform: at(old.get(cell.dataset.id)), opacity: 0 };
      const path = [start, { opacity: 1, offset: 0.05 }, { transform: at(spots[i]) }];
      this.fly(cell, path, { duration: each, delay: (i / cells.length) * (WRITE - each), easing: "ease-in-out" });
    });
  }

  drawGrid(number, spread) {
    const frame = this.frames[number];
    const { cells, height, unit } = this.plans[number];
    const [from, keys] = [this.spots, this.keys[number]];
    const [odd, used] = [new Set(frame.odd), new Set(keys)];
    this.board.style.height = `${height}px`;
    this.board.style.setProperty("--unit", `${unit}px`);
    this.board.classList.toggle("tiny", unit < 27);
    this.spots = new Map();
    for (const [key, cell] of this.pool) cell.hidden = !used.has(key);
    keys.forEach((key, i) => {
      const [cell, to, start] = [this.pool.get(key), cells[i], from.get(key)];
      this.spots.set(key, to);
      cell.style.transform = at(to);
      this.write(cell, frame.places[i], frame.strip, odd.has(i));
      if (spread === null) return;
      const path = start ? { transform: [at(start), at(to)], zIndex: [2, 2] } : { opacity: [0, 1] };
      this.fly(cell, path, { duration: FLIGHT, delay: (i / cells.length) * spread, easing: "ease-in-out" });
    });
    this.drawReading(frame);
    this.drawMarks(number, spread === null ? 0 : spread + FLIGHT);
  }

  /** Say how the strip is read: axes, sizes and strides; cells that are not read are pale. */
  drawReading(frame) {
    this.strips.forEach(({ label, cells }, i) => {
      if (i < frame.strip) label.textContent = stripWords(i, this.strips.length, "unchanged, no longer read");
      const read = new Set(i === frame.strip ? frame.ids : []);
      for (const cell of cells) cell.classList.toggle("unread", i <= frame.strip && !read.has(Number(cell.dataset.id)));
    });
    const chips = frame.shape.map((_, i) => makeChip(frame, i));
    this.reading.replaceChildren(make("span", "label", frame.odd.length ? "read as if it were" : "read as"), ...chips);
  }

  drawMarks(number, takes) {
    this.marks.forEach((mark) => mark.remove());
    this.marks = this.plans[number].marks.map((one) => {
      const mark = makeMark(one);
      if (one.span) mark.append(this.makeContents(this.frames[number], one.span));
      const faint = [{ opacity: 0 }, { opacity: 0.4, offset: 0.25 }, { opacity: 0.4, offset: 0.75 }, { opacity: 1 }];
      if (takes) this.fly(mark, faint, { duration: takes });
      return mark;
    });
    this.board.prepend(...this.marks);
  }

  /** Say which heads of which tokens lie in the box of a head, and warn where they do not belong there. */
  makeContents(frame, [start, end]) {
    const odd = frame.odd.some((i) => i >= start && i < end);
    const owners = (role) => frame.ids.slice(start, end).map((id) => this.lane.cells[id][role]);
    const words = `${spans(owners("head"), "h")} of ${spans(owners("token"), "t")}`;
    return odd ? make("em", "odd", `⚠ ${words}`) : make("em", "", words);
  }
}
