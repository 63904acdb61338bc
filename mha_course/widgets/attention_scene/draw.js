// Draws the scene on a canvas: matrices as cells, the streams between them, and the word that is followed.

import { clamp } from "../dom.js";
import { number } from "../head_explorer/data.js";
import { bandOf, lineOf } from "./layout.js";

const NAMES = { x: "x", q: "q", k: "kᵀ", v: "v", scores: "scores", weights: "weights", context: "context", out: "out" };

/** Read colours and fonts from where the widget stands, so that it follows the theme. */
export function lookOf(root, { streams, accent, cividis }) {
  const { color: ink, backgroundColor: paper, fontFamily } = getComputedStyle(root);
  const [red, green, blue] = rgbOf(paper);
  const dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128;
  const light = (colour) => (dark ? `color-mix(in srgb, ${colour} 52%, white)` : colour);
  const mix = (share) => `color-mix(in srgb, ${ink} ${share}%, ${paper})`;
  return {
    ink,
    paper,
    dark,
    muted: mix(dark ? 72 : 66),
    line: mix(24),
    faint: mix(32),
    accent: dark ? "#f0a030" : accent,
    streams: Object.fromEntries(Object.entries(streams).map(([name, colour]) => [name, light(colour)])),
    signed: dark
      ? { middle: [red, green, blue], low: [104, 168, 255], high: [255, 116, 100], power: 0.6 }
      : { middle: [red, green, blue], low: [33, 92, 170], high: [190, 32, 46], power: 0.8 },
    veil: dark ? 0.5 : 0.62,
    cividis,
    font: (size, weight = "") => `${weight} ${size}px ${fontFamily}`,
    dots: Math.min(3, window.devicePixelRatio || 1),
  };
}

function canvasOf(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

function rgbOf(colour) {
  const context = canvasOf(1, 1).getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

/** Return a colour, red, green and blue, for a number between -1 and 1, or for a weight. */
export function colourOf(look, value, weight) {
  if (weight) {
    const at = 3 * Math.round(255 * clamp(value, 0, 1));
    return look.cividis.subarray(at, at + 3);
  }
  const { middle, low, high, power } = look.signed;
  const [end, share] = [value < 0 ? low : high, Math.abs(clamp(value, -1, 1)) ** power];
  return middle.map((part, i) => part + (end[i] - part) * share);
}

/** Draws one moment: `now` are the numbers that a transition moves, `view` is what is followed and pointed at. */
export class Painter {
  constructor(canvas, steps, look) {
    Object.assign(this, { canvas, steps, look, images: new Map() });
    this.context = canvas.getContext("2d");
  }

  paint(plan, now, view) {
    const { canvas, context, look } = this;
    const [w, h] = [plan.width, plan.height].map((size) => Math.round(size * look.dots));
    if (canvas.width !== w || canvas.height !== h) {
      Object.assign(canvas, { width: w, height: h });
      Object.assign(canvas.style, { width: `${plan.width}px`, height: `${plan.height}px` });
    }
    Object.assign(this, { plan, now, view });
    context.setTransform(look.dots, 0, 0, look.dots, 0, 0);
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, plan.width, plan.height);
    Object.assign(context, { lineCap: "butt", lineJoin: "round", textBaseline: "alphabetic" });
    this.paintStreams();
    this.paintOutput();
    this.paintScaling();
    for (const part of Object.values(plan.parts)) this.paintMatrix(part);
    this.paintWords();
    this.paintHeads();
    if (now.followed > 0.01) this.paintFollowed();
    this.paintLegend();
    if (view.cell) this.paintCell(view.cell);
    if (view.inside) this.paintInside(view.inside);
    context.globalAlpha = 1;
  }

  // What everything is drawn with.

  /** Stroke a path of points; between three points it is a curve. */
  stroke(colour, width, alpha, ...points) {
    const { context } = this;
    Object.assign(context, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha });
    context.beginPath();
    context.moveTo(...points[0]);
    for (const point of points.slice(1)) {
      if (point.length === 2) context.lineTo(...point);
      else context.bezierCurveTo(...point);
    }
    context.stroke();
  }

  text(words, x, y, { colour = this.look.muted, size = 11, weight = "", align = "left", alpha = 1 } = {}) {
    const { context, look } = this;
    Object.assign(context, { font: look.font(size, weight), fillStyle: colour, textAlign: align, globalAlpha: alpha });
    context.fillText(words, x, y);
    return context.measureText(words).width;
  }

  arrow(colour, alpha, x, y, turn = 0) {
    const { context } = this;
    context.save();
    Object.assign(context, { fillStyle: colour, globalAlpha: alpha });
    context.translate(x, y);
    context.rotate(turn);
    context.beginPath();
    context.moveTo(0, 0);
    context.lineTo(-6, -3.5);
    context.lineTo(-6, 3.5);
    context.fill();
    context.restore();
  }

  /** Bring an edge to a whole pixel of the screen. */
  crisp(value) {
    return Math.round(value * this.look.dots) / this.look.dots;
  }

  box({ x, y, w, h }) {
    const [left, top] = [this.crisp(x), this.crisp(y)];
    return [left, top, this.crisp(x + w) - left, this.crisp(y + h) - top];
  }

  // Matrices.

  /** Return a picture with a pixel a cell; what is hidden stays clear. */
  imageOf(name, head, turned = false) {
    const key = `${name} ${head}`;
    if (this.images.has(key)) return this.images.get(key);
    const { steps, look } = this;
    const { S, D, C } = steps;
    const width = { scores: S, weights: S, x: C, out: C }[name] ?? D;
    const [columns, rows] = turned ? [S, width] : [width, S];
    const image = new ImageData(columns, rows);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const [row, column] = turned ? [x, y] : [y, x];
        const value = name === "merged" ? steps.value("merged", 0, row, head * D + column) : steps.value(name, head, row, column);
        const shut = name === "weights" && steps.hidden(head, row, column) && value === 0;
        const weight = name === "weights";
        const colour = Number.isFinite(value) ? colourOf(look, weight ? value : value / steps.most[name], weight) : [230, 30, 107];
        image.data.set([...colour, shut ? 0 : 255], 4 * (y * columns + x));
      }
    }
    const canvas = canvasOf(columns, rows);
    canvas.getContext("2d").putImageData(image, 0, 0);
    this.images.set(key, canvas);
    return canvas;
  }

  paintMatrix(part) {
    const { context, steps, look, now } = this;
    const { name, turned } = part;
    const alpha = now[name];
    if (name === "x" && !steps.arrays.x) return;
    const square = name === "scores" || name === "weights";
    const colour = look.streams[name] ?? look.line;
    for (let head = 0; head < (square ? steps.H : part.bands); head++) {
      const light = now[`head${head}`];
      const seen = square ? light : part.bands > 1 ? now.others + (1 - now.others) * light : 1;
      if (seen < 0.01) continue;
      const area = square ? part : bandOf(part, head);
      context.globalAlpha = alpha * seen;
      if (square) this.hatch(area, head);
      context.drawImage(this.imageOf(name, head, turned), ...this.box(area));
      if (name === "context" && now.merged > 0.01) {
        context.globalAlpha = alpha * seen * now.merged;
        context.drawImage(this.imageOf("merged", head), ...this.box(area));
      }
      this.rule(area, part, alpha * seen, square);
      if (!square) this.frame(area, colour, alpha * seen);
    }
    if (square) this.frame(part, colour, alpha);
    this.label(part, alpha);
  }

  frame(area, colour, alpha) {
    const [x, y, w, h] = this.box(area);
    Object.assign(this.context, { strokeStyle: colour, lineWidth: 1, globalAlpha: alpha });
    this.context.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
  }

  /** Draw lines of paper between the cells, or between the tokens where cells are small. */
  rule(area, { rows, columns, turned }, alpha, square) {
    const { context, look } = this;
    const across = turned || square ? columns : 0;
    const down = turned ? 0 : rows;
    Object.assign(context, { strokeStyle: look.paper, lineWidth: 1, globalAlpha: alpha });
    context.beginPath();
    for (let i = 1; i < across; i++) {
      const x = this.crisp(area.x + (i * area.w) / columns) - 0.5;
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
    }
    for (let i = 1; i < down; i++) {
      const y = this.crisp(area.y + (i * area.h) / rows) - 0.5;
      context.moveTo(area.x, y);
      context.lineTo(area.x + area.w, y);
    }
    context.stroke();
      }

  /** Hatch what the mask hides: it lies behind the cells, of which hidden ones are clear. */
  hatch({ x, y, w, h }, head) {
    const { context, look, steps } = this;
    const { S } = steps;
    if (!steps.masked) return;
    context.save();
    context.beginPath();
    for (let i = 0; i < S; i++)
      for (let j = 0; j < S; j++)
        if (steps.hidden(head, i, j)) context.rect(x + (j * w) / S, y + (i * h) / S, w / S, h / S);
    context.clip();
    Object.assign(context, { strokeStyle: look.muted, lineWidth: 1 });
    context.beginPath();
    for (let d = -h; d < w; d += 4) {
      context.moveTo(x + d, y + h);
      context.lineTo(x + d + h, y);
    }
    context.stroke();
    context.restore();
  }

  /** Name a matrix and its shape: above it where there is room, kᵀ and v at their left. */
  label(part, alpha) {
    const { steps, look } = this;
    const { name, x, y, w, h } = part;
    const shape = `${part.rows}×${part.columns}${steps.yours.includes(name) ? " · yours" : ""}`;
    const bold = { colour: look.streams[name] ?? look.ink, size: 13, weight: "600", alpha };
    if (name === "k" || name === "v") {
      const base = name === "k" ? y - 6 : y + h;
      this.text(NAMES[name], x - 12, base - 15, { ...bold, align: "right" });
      this.text(shape, x - 12, base, { align: "right", alpha });
      return;
    }
    const base = ["x", "q", "scores"].includes(name) ? y + h + 18 : y - 10;
    const room = this.text(NAMES[name], x, base, bold);
    this.text(shape, x + room + 6, base, { alpha });
  }

  // What leads from one to the next.

  paintStreams() {
    const { plan, steps, look, now } = this;
    const { x, q, k, v } = plan.parts;
    const { H } = steps;
    const start = x.x + x.w + 4;
    const middle = plan.top + plan.side / 2;
    const seen = (name) => Math.max(now.projection, 0.5 * now[name]);
    const bend = (from, y, to, end) => [(from + to) / 2, y, (from + to) / 2, end, to, end];
    for (let head = 0; head < H; head++) {
      const shift = (head - (H - 1) / 2) * 4;
      const light = now.others + (1 - now.others) * now[`head${head}`];
      const style = (name) => [look.streams[name], 1.5, seen(name) * light];
      this.stroke(...style("q"), [start, middle + shift], [q.x - 9, middle + shift]);
      const band = bandOf(k, head);
      const [from, high] = [plan.top + 40 + shift, band.y + band.h / 2];
      this.stroke(...style("k"), [start, from], bend(start + shift, from, start + 64 + shift, high), [k.x - 9, high]);
      this.arrow(look.streams.k, seen("k") * light, k.x - 4, high);
      const [back, low, end] = [plan.bottom - 40 + shift, plan.bottom + 44 + shift, v.y + v.h / 2 + shift];
      const turn = v.x - 80 - shift;
      this.stroke(...style("v"), [start, back], bend(start - shift, back, start + 64 - shift, low), [turn, low],
        bend(turn, low, turn + 64, end), [v.x - 9, end]);
    }
    this.arrow(look.streams.q, seen("q"), q.x - 4, middle);
    this.arrow(look.streams.v, seen("v"), v.x - 4, v.y + v.h / 2);
    const places = { q: middle - 8 - 2 * H, k: plan.top + 14 - 2 * H, v: plan.bottom - 48 - 2 * H };
    for (const [name, y] of Object.entries(places)) this.nameOfWeights(name.toUpperCase(), start, y, look.streams[name], seen(name));
  }

  /** Write W with its index. */
  nameOfWeights(index, x, y, colour, alpha) {
    const room = this.text("W", x, y, { colour, alpha, size: 13, weight: "600" });
    this.text(index, x + room, y + 3, { colour, alpha, weight: "600" });
  }

  /** Draw the way of every row from scores to weights: made smaller, through the mask's door, then softmax. */
  paintScaling() {
    const { plan, look, now, steps, context } = this;
    const { scores, weights } = plan.parts;
    const alpha = now.scaling;
    const [left, right] = [scores.x + scores.w + 6, weights.x - 6];
    const step = (right - left) / 3;
    const thick = Math.min(3, plan.cell / 4);
    Object.assign(context, { fillStyle: look.faint, globalAlpha: alpha });
    context.beginPath();
    for (let i = 0; i < steps.S; i++) {
      const y = plan.top + (i + 0.5) * plan.cell;
      const points = [[left, -thick], [left + step, -0.5], [right, -0.5], [right, 0.5], [left + step, 0.5], [left, thick]];
      points.forEach(([x, away], n) => (n ? context.lineTo(x, y + away) : context.moveTo(x, y + away)));
    }
    context.fill();
    const gates = [[`÷ √${steps.D}`, 1], [steps.masked ? "mask" : "no mask", 1.75], ["softmax", 2.5]];
    gates.forEach(([words, at], n) => {
      const x = this.crisp(left + at * step) + 0.5;
      const high = plan.top - 62 + 18 * n;
      const shut = n === 1 && steps.masked;
      this.stroke(look.muted, shut ? 3 : 1, alpha * (n === 1 && !shut ? 0.4 : 1), [x, high + 5], [x, plan.bottom]);
      this.text(words, x - 2, high, { alpha });
    });
  }

  paintOutput() {
    const { plan, look, now, steps } = this;
    const { x, context, out } = plan.parts;
    const [from, to, middle] = [context.x + context.w + 6, out.x - 5, plan.top + plan.side / 2];
    for (let head = 0; head < steps.H; head++) {
      const y = plan.top + ((head + 0.5) * plan.side) / steps.H;
      const light = now.others + (1 - now.others) * now[`head${head}`];
      this.stroke(look.muted, 1.5, now.output * light, [from, y], [from + 20, y, to - 20, middle, to - 4, middle]);
    }
    this.arrow(look.muted, now.output, to, middle);
    this.nameOfWeights("O", from + 8, plan.top + 12, look.ink, now.output);
    if (!steps.arrays.x) return;
    const [plus, high, centre] = [out.x + out.w + 20, 16, x.x + x.w / 2];
    const r = 12;
    this.stroke(look.line, 1.5, now.residual, [centre, plan.top - 6], [centre, high + r], [centre, high, centre, high, centre + r, high],
      [plus - r, high], [plus, high, plus, high, plus, high + r], [plus, middle - 10]);
    this.arrow(look.muted, now.residual, plus, middle - 9, Math.PI / 2);
    this.text("x is added back", centre + 20, high + 16, { alpha: now.residual });
    this.stroke(look.line, 1.5, now.residual, [out.x + out.w + 5, middle], [plus - 9, middle]);
    const { context: pen } = this;
    Object.assign(pen, { strokeStyle: look.muted, lineWidth: 1.5, globalAlpha: now.residual });
    pen.beginPath();
    pen.arc(plus, middle, 8, 0, 7);
    pen.moveTo(plus - 4, middle);
    pen.lineTo(plus + 4, middle);
    pen.moveTo(plus, middle - 4);
    pen.lineTo(plus, middle + 4);
    pen.stroke();
  }

  paintWords() {
    const { plan, steps, look, now, view, context } = this;
    const { k } = plan.parts;
    const best = view.row >= 0 ? view.best : null;
    for (let i = 0; i < steps.S; i++) {
      const lit = i === view.row;
      const style = { colour: lit ? look.accent : look.ink, weight: lit ? "700" : "", alpha: Math.max(now.x, now.words) };
      this.text(steps.word(i), plan.words, plan.top + (i + 0.5) * plan.cell + 4, { ...style, align: "right" });
      context.save();
      context.translate(k.x + (i + 0.5) * plan.cell + 4, k.y - 6);
      context.rotate(-Math.PI / 2);
      const key = best && best.column === i ? { colour: look.ink, weight: "700" } : {};
      this.text(steps.word(i), 0, 0, { alpha: now.k, ...key });
      context.restore();
    }
  }

  /** Draw the weights of all heads small: each is a button. */
  paintHeads() {
    const { plan, look, now, view, context } = this;
    plan.heads.forEach(({ x, y, side }, head) => {
      const lit = head === view.head;
      context.globalAlpha = now.weights * (lit ? 1 : 0.55);
      context.drawImage(this.imageOf("weights", head), ...this.box({ x, y, w: side, h: side }));
      this.frame({ x, y, w: side, h: side }, lit ? look.ink : look.line, now.weights);
      const name = plan.heads.length > 4 ? `${head}` : `head ${head}`;
      this.text(name, x, y - 6, { colour: lit ? look.ink : look.muted, weight: lit ? "700" : "", alpha: now.weights });
    });
  }

  // The word that is followed.

  paintFollowed() {
    const { plan, look, now, view, steps, context } = this;
    const { x, q, k, v, scores, weights, context: mixed, out } = plan.parts;
    const { row, head } = view;
    const shown = now.followed;
    for (const part of [x, q, scores, weights, mixed, out]) this.veil(part, shown * look.veil);
    const column = (part, j) => part.x + (j + 0.5) * plan.cell;
    const line = (part) => lineOf(part, now.row);
    const y = plan.top + (now.row + 0.5) * plan.cell;
    const all = steps.S;
    const values = Array.from({ length: all }, (_, j) => steps.value("scores", head, row, j));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const meets = shown * Math.min(now.q, now.k, now.scores);
    const mixes = shown * Math.min(now.weights, now.v, now.context);
    const band = bandOf(v, head);
    for (let j = 0; j < all; j++) {
      const score = (values[j] - low) / (high - low || 1);
      const [bottom, at] = [k.y + k.h + 3, column(scores, j)];
      const start = q.x + q.w + 3;
      this.stroke(look.accent, 0.5 + 3 * score ** 2, meets * (0.18 + 0.7 * score ** 2), [start, y],
        [start + (at - start) / 2, y - (y - bottom) / 2, at, bottom + (y - bottom) / 2, at, bottom]);
      const weight = steps.value("weights", head, row, j);
      if (weight > 0.005) {
        const [from, to] = [column(weights, j), lineOf(v, j).y + lineOf(v, j).h / 2];
        this.stroke(look.accent, 0.75 + 5 * weight, mixes * (0.3 + 0.6 * weight), [from, y + plan.cell / 2 + 1],
          [from, plan.bottom + 60, v.x - 60, to, v.x - 4, to]);
      }
      const own = lineOf(v, j);
      if (view.best?.column === j) {
        const words = `${steps.word(j)} ${number(weight)}`;
        this.text(words, v.x + v.w + 8, own.y + own.h / 2 + 4, { colour: look.ink, alpha: mixes });
      }
      const dim = 0.72 * (1 - Math.sqrt(Math.max(0, weight)));
      Object.assign(context, { fillStyle: look.paper, globalAlpha: mixes * dim });
      context.fillRect(...this.box(own));
    }
    this.stroke(look.accent, 3, mixes, [band.x + band.w / 2, v.y - 3], [band.x + band.w / 2, y + plan.cell / 2 + 7]);
    this.arrow(look.accent, mixes, band.x + band.w / 2, y + plan.cell / 2 + 2, -Math.PI / 2);
    const through = [[x, q, Math.min(now.x, now.q)], [scores, weights, now.scaling], [mixed, out, now.output]];
    for (const [from, to, alpha] of through)
      this.stroke(look.accent, 1.5, shown * alpha, [from.x + from.w + 3, y], [to.x - 3, y]);
    for (const part of [x, q, scores, weights, mixed, out])
      if (part !== x || steps.arrays.x) this.outline(line(part), shown * now[part.name], look.accent);
  }

  /** Let all rows but the one that is followed step back. */
  veil({ x, w }, alpha) {
    const { context, plan, look, now } = this;
    Object.assign(context, { fillStyle: look.paper, globalAlpha: alpha });
    const y = this.crisp(plan.top + now.row * plan.cell);
    context.fillRect(x - 2, plan.top - 2, w + 4, y - plan.top + 2);
    context.fillRect(x - 2, y + plan.cell, w + 4, plan.bottom - y - plan.cell + 2);
  }

  outline(area, alpha, colour) {
    const [x, y, w, h] = this.box(area);
    const { context, look } = this;
    context.globalAlpha = alpha;
    for (const [width, style, out] of [[1, look.paper, 2], [1.5, colour, 1]]) {
      Object.assign(context, { lineWidth: width, strokeStyle: style });
      context.strokeRect(x - out, y - out, w + 2 * out, h + 2 * out);
    }
  }

  // What is pointed at.

  paintCell({ name, head, row, column }) {
    const { plan, look } = this;
    const part = plan.parts[name];
    const area = part.bands > 1 ? bandOf(part, head) : part;
    const [rows, columns] = part.turned ? [part.rows / part.bands, part.columns] : [part.rows, part.columns / part.bands];
    const [down, right] = part.turned ? [column, row] : [row, column];
    const [w, h] = [area.w / columns, area.h / rows];
    this.outline({ x: area.x + right * w, y: area.y + down * h, w, h }, 1, look.ink);
  }

  /** Draw what a number is made of as bars, below the matrices. */
  paintInside({ title, parts, total, note }) {
    const { plan, look } = this;
    const [left, top, base] = [plan.parts.x.x, plan.bottom + 72, plan.bottom + 116];
    const titled = this.text(title, left, top - 4, { colour: look.ink, size: 13, weight: "600" });
    this.text(`= ${number(total)}`, left + titled + 8, top - 4, { colour: look.ink, size: 13 });
    if (note) this.text(note, left + titled + 90, top - 4);
    if (!parts.length) return;
    const step = Math.min(44, (plan.parts.weights.x + plan.side - left) / parts.length);
    const most = Math.max(...parts.map(({ value }) => Math.abs(value))) || 1;
    const { context } = this;
    parts.forEach(({ name, value, lit }, i) => {
      const x = left + i * step;
      const height = (26 * Math.abs(value)) / most;
      const [red, green, blue] = colourOf(look, value / most, false).map(Math.round);
      Object.assign(context, { globalAlpha: 1, fillStyle: `rgb(${red}, ${green}, ${blue})` });
      context.fillRect(x, value < 0 ? base : base - height, 20, height);
      if (lit) this.outline({ x, y: base - height, w: 20, h: height }, 1, look.ink);
      this.text(number(value), x + 10, value < 0 ? base - 4 : base - height - 4, { align: "center", colour: look.ink });
      this.text(name, x + 10, base + 42, { align: "center" });
    });
    this.stroke(look.line, 1, 1, [left - 4, base], [left + parts.length * step - step + 28, base]);
  }

  paintLegend() {
    const { plan, look, context } = this;
    const { context: part, out } = plan.parts;
    const [left, right, y] = [part.x, out.x + out.w, 56];
    const width = (right - left - 24) / 2;
    for (const [from, weight, low, high, name] of [[left, false, "−", "+", "numbers"], [left + width + 24, true, "0", "1", "weights"]]) {
      for (let i = 0; i < width; i++) {
        const share = i / (width - 1);
        const [red, green, blue] = colourOf(look, weight ? share : 2 * share - 1, weight);
        Object.assign(context, { globalAlpha: 1, fillStyle: `rgb(${red}, ${green}, ${blue})` });
        context.fillRect(from + i, y, 1.5, 8);
      }
      this.frame({ x: from, y, w: width, h: 8 }, look.line, 1);
      this.text(low, from, y + 22);
      this.text(name, from + width / 2, y + 22, { align: "center" });
      this.text(high, from + width, y + 22, { align: "right" });
    }
  }
}
