// Draws the scene on a canvas: what the plan says, matrices as cells, and the word that is followed.

import { clamp, number } from "../dom.js";
import { bandOf, cellOf, sizesOf } from "./layout.js";

const NO_NUMBER = [230, 30, 107]; // red, green, blue of NaN and of infinity
const BAR = { top: 444, base: 488, left: 76, step: 44, wide: 20, tall: 26 }; // what a number is made of

/** Read colours and fonts from where the widget stands, so that it follows the theme. */
export function lookOf(root, { streams, accent, cividis }) {
  const { color: ink, backgroundColor: paper, fontFamily } = getComputedStyle(root);
  const [red, green, blue] = rgbOf(paper);
  const dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128;
  const mix = (share) => `color-mix(in srgb, ${ink} ${share}%, ${paper})`;
  const light = ([name, colour]) => [name, dark ? `color-mix(in srgb, ${colour} 52%, white)` : colour];
  const ends = dark
    ? { low: [104, 168, 255], high: [255, 116, 100], power: 0.6, veil: 0.5 }
    : { low: [33, 92, 170], high: [190, 32, 46], power: 0.8, veil: 0.62 };
  const colours = { ink, muted: mix(dark ? 72 : 66), line: mix(28), accent: dark ? "#f0a030" : accent };
  Object.assign(colours, Object.fromEntries(Object.entries(streams).map(light)));
  const dots = Math.min(3, window.devicePixelRatio || 1);
  return { ...ends, middle: [red, green, blue], ink, paper, colours, cividis, fontFamily, dots };
}

const makeCanvas = (width, height) => Object.assign(document.createElement("canvas"), { width, height });

function rgbOf(colour) {
  const context = makeCanvas(1, 1).getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

/** Return red, green and blue of a number between -1 and 1, or of a weight. */
function colourOf({ cividis, low, high, middle, power }, value, weight) {
  if (!Number.isFinite(value)) return NO_NUMBER;
  const at = 3 * Math.round(255 * clamp(value, 0, 1));
  if (weight) return cividis.subarray(at, at + 3);
  const share = Math.abs(clamp(value, -1, 1)) ** power;
  return middle.map((part, i) => Math.round(part + ((value < 0 ? low : high)[i] - part) * share));
}

/** Draws one moment: `now` are the numbers that a transition moves, `view` is what is followed and looked into. */
export class Painter {
  constructor(canvas, steps, look, zoom) {
    const { plan } = steps;
    Object.assign(this, { steps, look, plan, zoom, images: new Map(), context: canvas.getContext("2d") });
    this.dots = look.dots * zoom; // pixels of the screen for one of the plan
    Object.assign(canvas, { width: Math.round(plan.width * this.dots), height: Math.round(plan.height * this.dots) });
    Object.assign(canvas.style, { width: `${plan.width * zoom}px`, height: `${plan.height * zoom}px` });
    this.context.scale(this.dots, this.dots);
    this.context.imageSmoothingEnabled = false;
    this.paths = plan.strokes.map(({ path }) => new Path2D(path));
  }

  paint(now, view) {
    const { context, plan } = this;
    Object.assign(this, { now, view });
    context.clearRect(0, 0, plan.width, plan.height);
    plan.strokes.forEach(({ color, width, shows, head }, i) => {
      const light = head < 0 ? 1 : this.lightOf(head);
      this.stroke(this.paths[i], color, width, now[shows] * light);
    });
    for (const [name, part] of Object.entries(plan.parts)) this.paintMatrix(name, part);
    plan.heads.forEach(({ x, y, side }, head) => {
      const [area, lit] = [{ x, y, w: side, h: side }, head === view.head];
      this.paintImage(this.imageOf("weights", head), area, now.weights * (lit ? 1 : 0.55));
      this.frame(area, lit ? "ink" : "line", now.weights);
    });
    for (const ramp of plan.ramps) this.paintRamp(ramp);
    if (now.followed > 0.01) this.paintFollowed();
    this.paintTexts();
    if (view.cell)
      this.outline(cellOf(plan.parts[view.cell.name], view.cell, plan.gap, this.apart(view.cell.name)), 1, "ink");
    if (view.inside) this.paintInside(view.inside);
  }

  lightOf(head) {
    return this.now.others + (1 - this.now.others) * this.now[`head${head}`];
  }

  /** Say how far apart the bands of a matrix are. */
  apart(name) {
    return name === "context" ? 1 - this.now.merged : this.now.split;
  }

  /** Stroke a path; one without a width is filled. */
  stroke(path, colour, width, alpha) {
    const { context, look } = this;
    const style = look.colours[colour];
    Object.assign(context, { globalAlpha: alpha, strokeStyle: style, fillStyle: style, lineWidth: width });
    const shape = typeof path === "string" ? new Path2D(path) : path;
    if (width) context.stroke(shape);
    else context.fill(shape);
  }

  text(words, x, y, { colour = "muted", size = 11, bold = false, align = "left", alpha = 1, turned = false } = {}) {
    const { context, look } = this;
    const font = `${bold ? "600 " : ""}${size / Math.min(1, this.zoom)}px ${look.fontFamily}`; // never smaller than its size
    Object.assign(context, { font, fillStyle: look.colours[colour], textAlign: align, globalAlpha: alpha });
    context.save();
    context.translate(x, y);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(words, 0, 0);
    context.restore();
    return x + context.measureText(words).width;
  }

  paintTexts() {
    const { now, view } = this;
    let end = 0;
    for (const { text, x, y, shows, color, row, key, head, bold, after, ...style } of this.plan.texts) {
      const followed = row !== undefined && row === view.row;
      const lit = followed || head === view.head || (key !== undefined && key === view.best?.column);
      const colour = followed ? "accent" : lit ? "ink" : color;
      end = this.text(text, after ? end + x : x, y, { ...style, colour, bold: bold || lit, alpha: now[shows] });
    }
  }

  whole(value) {
    return Math.round(value * this.dots) / this.dots;
  }

  /** Bring a box to whole pixels of the screen. */
  crisp({ x, y, w, h }) {
    const [left, top] = [this.whole(x), this.whole(y)];
    return [left, top, this.whole(x + w) - left, this.whole(y + h) - top];
  }

  /** Return a picture with a pixel a cell; what is hidden stays clear. */
  imageOf(name, head, { rows, columns } = { rows: this.steps.S, columns: this.steps.S }) {
    const key = `${name} ${head}`;
    if (this.images.has(key)) return this.images.get(key);
    const { steps, look } = this;
    const [weight, turned] = [name === "weights", name === "k"];
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      const [y, x] = [Math.floor(i / columns), i % columns];
      const [row, column] = turned ? [x, y] : [y, x];
      const value = steps.value(name, head, row, column);
      const clear = weight && value === 0 && steps.hidden(head, row, column);
      image.data.set([...colourOf(look, weight ? value : value / steps.most[name], weight), clear ? 0 : 255], 4 * i);
    }
    const canvas = makeCanvas(columns, rows);
    canvas.getContext("2d").putImageData(image, 0, 0);
    this.images.set(key, canvas);
    return canvas;
  }

  paintImage(image, area, alpha) {
    this.context.globalAlpha = alpha;
    this.context.drawImage(image, ...this.crisp(area));
  }

  /** Draw a matrix, in bands where it has heads; of scores and weights those of the head that is lit. */
  paintMatrix(name, part) {
    const { steps, now } = this;
    for (let head = 0; head < (part.square ? steps.H : part.bands); head++) {
      const light = part.square ? now[`head${head}`] : part.bands > 1 ? this.lightOf(head) : 1;
      if (light > 0.01) this.paintBand(name, part, head, now[name] * light);
    }
  }

  paintBand(name, part, head, alpha) {
    const { steps, now, plan, look } = this;
    const { square, turned } = part;
    const sizes = sizesOf(part);
    const area = bandOf(part, head, plan.gap, this.apart(name));
    this.paintImage(this.imageOf(name, head, sizes), area, alpha);
    if (name === "context") this.paintImage(this.imageOf("merged", head, sizes), area, alpha * now.merged);
    if (name === "weights" && steps.masked) this.hatch(area, head, alpha);
    this.rule(area, square || turned ? sizes.columns : 1, turned ? 1 : sizes.rows);
    this.frame(area, look.colours[name] ? name : "line", alpha);
  }

  frame(area, colour, alpha) {
    const [x, y, w, h] = this.crisp(area);
    this.stroke(`M${x - 0.5} ${y - 0.5}h${w + 1}v${h + 1}h${-w - 1}z`, colour, 1, alpha);
  }

  /** Draw lines of paper between cells. */
  rule(area, columns, rows) {
    const [x, y, w, h] = this.crisp(area);
    let path = "";
    for (let i = 1; i < columns; i++) path += `M${this.whole(x + (i * w) / columns) - 0.5} ${y}v${h}`;
    for (let i = 1; i < rows; i++) path += `M${x} ${this.whole(y + (i * h) / rows) - 0.5}h${w}`;
    Object.assign(this.context, { strokeStyle: this.look.paper, lineWidth: 1 });
    this.context.stroke(new Path2D(path));
  }

  hatch({ x, y, w, h }, head, alpha) {
    const { context, steps } = this;
    const { S } = steps;
    context.save();
    context.beginPath();
    for (let i = 0; i < S * S; i++) {
      const [row, column] = [Math.floor(i / S), i % S];
      if (steps.hidden(head, row, column)) context.rect(x + (column * w) / S, y + (row * h) / S, w / S, h / S);
    }
    context.clip();
    let path = "";
    for (let from = x - h; from < x + w; from += 4) path += `M${from} ${y + h}l${h} ${-h}`;
    this.stroke(path, "muted", 1, alpha);
    context.restore();
  }

  outline(area, alpha, colour) {
    const [x, y, w, h] = this.crisp(area);
    Object.assign(this.context, { globalAlpha: alpha, strokeStyle: this.look.paper, lineWidth: 1 });
    this.context.strokeRect(x - 2, y - 2, w + 4, h + 4);
    this.stroke(`M${x - 1} ${y - 1}h${w + 2}v${h + 2}h${-w - 2}z`, colour, 1.5, alpha);
  }

  paintRamp({ x, y, w, weights }) {
    for (let i = 0; i < w; i++) {
      const share = i / (w - 1);
      const colour = colourOf(this.look, weights ? share : 2 * share - 1, weights);
      Object.assign(this.context, { globalAlpha: 1, fillStyle: `rgb(${colour.join()})` });
      this.context.fillRect(x + i, y, 1.5, 8);
    }
    this.frame({ x, y, w, h: 8 }, "line", 1);
  }

  /** Light the row of the word that is followed, its scores as lines to the keys, its weights as lines to the values. */
  paintFollowed() {
    const { plan, now, view, steps } = this;
    const { x, q, k, v, scores, weights, context, out } = plan.parts;
    const { row, head, best } = view;
    const { S } = steps;
    const cell = plan.side / S;
    const [y, bottom, key] = [plan.top + (now.row + 0.5) * cell, plan.top + plan.side, k.y + k.h + 3];
    const [meets, mixes] = [Math.min(now.q, now.k, now.scores), Math.min(now.weights, now.v, now.context)];
    const rows = Object.entries({ x, q, scores, weights, context, out }).filter(([, part]) => part);
    for (const [, part] of rows) this.veil({ ...part, y: plan.top }, now.row * cell, cell);
    const values = Array.from({ length: S }, (_, j) => steps.value("scores", head, row, j));
    const [low, high, start] = [Math.min(...values), Math.max(...values), q.x + q.w + 3];
    for (let j = 0; j < S; j++) {
      const size = ((values[j] - low) / (high - low || 1)) ** 2;
      const [at, middle] = [scores.x + (j + 0.5) * cell, (y + key) / 2];
      const line = `M${start} ${y}C${(start + at) / 2} ${middle} ${at} ${middle} ${at} ${key}`;
      this.stroke(line, "accent", 0.5 + 3 * size, now.followed * meets * (0.18 + 0.7 * size));
      const weight = Math.max(0, steps.value("weights", head, row, j));
      const value = cellOf(v, { row: j }, plan.gap, now.split);
      const [from, to] = [weights.x + (j + 0.5) * cell, value.y + value.h / 2];
      const curve = `M${from} ${y + cell / 2 + 1}C${from} ${bottom + 60} ${v.x - 60} ${to} ${v.x - 4} ${to}`;
      if (weight > 0.005) this.stroke(curve, "accent", 0.75 + 5 * weight, now.followed * mixes * (0.3 + 0.6 * weight));
      this.fade(value, now.followed * mixes * 0.72 * (1 - Math.sqrt(weight)));
      if (j === best?.column)
        this.text(`${steps.word(j)} ${number(weight)}`, v.x + v.w + 8, to + 4, { colour: "ink", alpha: mixes });
    }
    const band = bandOf(v, head, plan.gap, now.split);
    const [middle, tip] = [band.x + band.w / 2, y + cell / 2 + 3];
    this.stroke(`M${middle} ${v.y - 3}V${tip + 5}`, "accent", 3, now.followed * mixes);
    this.stroke(`M${middle} ${tip}l-4 7h8z`, "accent", 0, now.followed * mixes);
    const through = [
      [x, q, Math.min(now.x, now.q)],
      [scores, weights, now.scaling],
      [context, out, now.output],
    ];
    for (const [from, to, alpha] of through)
      if (from) this.stroke(`M${from.x + from.w + 3} ${y}H${to.x - 3}`, "accent", 1.5, now.followed * alpha);
    for (const [name, part] of rows)
      this.outline(cellOf(part, { row: now.row }, plan.gap, this.apart(name)), now.followed * now[name], "accent");
  }

  fade(area, alpha) {
    Object.assign(this.context, { fillStyle: this.look.paper, globalAlpha: alpha });
    this.context.fillRect(...this.crisp(area));
  }

  /** Let all rows but one step back. */
  veil({ x, y, w, h }, from, cell) {
    const alpha = this.now.followed * this.look.veil;
    this.fade({ x: x - 2, y: y - 2, w: w + 4, h: from + 2 }, alpha);
    this.fade({ x: x - 2, y: y + from + cell, w: w + 4, h: h - from - cell + 2 }, alpha);
  }

  /** Draw what a number is made of as bars, below the matrices. */
  paintInside({ title, parts, total, note }) {
    const { top, base, left, step, wide, tall } = BAR;
    const end = this.text(title, left, top, { colour: "ink", size: 13, bold: true });
    const after = this.text(`= ${number(total)}`, end + 8, top, { colour: "ink", size: 13 });
    this.text(note ?? "", after + 24, top);
    if (!parts.length) return;
    const most = Math.max(...parts.map(({ value }) => Math.abs(value))) || 1;
    const below = base + 16 + tall * Math.max(0, ...parts.map(({ value }) => -value / most));
    parts.forEach(({ name, value, lit }, i) => {
      const [x, h] = [left + i * step, (tall * Math.abs(value)) / most];
      const y = value < 0 ? base : base - h;
      Object.assign(this.context, {
        globalAlpha: 1,
        fillStyle: `rgb(${colourOf(this.look, value / most, false).join()})`,
      });
      this.context.fillRect(x, y, wide, h);
      if (lit) this.outline({ x, y, w: wide, h }, 1, "ink");
      this.text(number(value), x + wide / 2, base - 4 - (value < 0 ? 0 : h), { align: "center", colour: "ink" });
      this.text(name, x + wide / 2, below, { align: "center" });
    });
    this.stroke(`M${left - 4} ${base}h${(parts.length - 1) * step + wide + 8}`, "line", 1, 1);
  }
}
