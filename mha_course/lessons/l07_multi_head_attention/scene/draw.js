// Draws the scene as SVG: what the plan of Python says, matrices as images, and the word that is followed. What changes
// with the stage, the word and the head is how visible things are, and where bands stand: the style sheet moves them.

import { make, number, svg } from "../../../widgets/dom.js";
import { paintCells, rgbOf, shade } from "../../../widgets/matrix.js";
import { stageAt } from "./stages.js";

const FAINT = 0.28; // what a stage does not show
const BAR = { left: 76, step: 44, wide: 20, few: 9, fewStep: 62 }; // of what a number is made of; few have words below

/** Return an image with a pixel a cell. */
function makeImage(cells, colours, { x, y, w, h }, attributes = {}) {
  const canvas = make("canvas");
  paintCells(canvas, cells, colours);
  const box = { x, y, width: w, height: h, preserveAspectRatio: "none", href: canvas.toDataURL() };
  return svg("image", { ...box, ...attributes });
}

/** Return a matrix whose numbers are asked for, cell by cell. */
const cellsOf = (rows, columns, valueAt) => ({
  values: Array.from({ length: rows * columns }, (_, i) =>
    valueAt(Math.floor(i / columns), i % columns),
  ),
  rows,
  columns,
});

const rect = (name, { x, y, w, h }, attributes = {}) =>
  svg("rect", { class: name, x, y, width: w, height: h, ...attributes });

const line = (d, width, opacity, name = "accent") =>
  svg("path", { class: `${width ? "stroke" : "fill"} ${name}`, d, "stroke-width": width, opacity });

/** Return where the part of a head stands, or a matrix that has no parts. */
const boxOf = ({ boxes }, head) => boxes[head] ?? boxes[0];

/** Return how visible a part of the picture is, from 0 to 1. */
function visibilityOf(name, stage) {
  const { highlights } = stageAt(stage);
  if (!highlights || name === "always") return 1;
  const rows = ["q", "scores", "weights", "context", "out"]; // beside which words stand
  const shown =
    name === "words"
      ? highlights.includes("x") || rows.some((row) => highlights.includes(row))
      : highlights.includes(name);
  return shown ? 1 : FAINT;
}

/** Say how visible a head is other than the chosen one. */
const visibilityOfOthers = (stage) => stageAt(stage).others ?? 1;

export class Picture {
  constructor(steps, palettes) {
    const id = `hidden-${Math.random().toString(36).slice(2)}`; // it counts in the whole page
    Object.assign(this, { steps, id, plan: steps.plan });
    this.weights = { low: 0, high: 1, palette: palettes.weights };
    this.signed = (most) => ({ low: -most, high: most, palette: palettes.signed });
    this.things = []; // {node, shows, head, others}: how visible it is follows the stage and the head
    this.merged = [];
    this.bands = []; // {node, name, shift}: stand separately, or together
    const { width, height, left, top, side, strokes, parts, heads, ramps } = this.plan;
    this.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "picture" });
    const stripes = svg("path", {
      d: "M-1 1L1 -1M0 4L4 0M3 5L5 3",
      class: "stroke muted",
      "stroke-width": 1,
    });
    const pattern = { id: this.id, width: 4, height: 4, patternUnits: "userSpaceOnUse" };
    this.svg.append(svg("defs", {}, svg("pattern", pattern, stripes)));
    for (const { path, color, width: wide, shows, head } of strokes)
      this.add(line(path, wide, 1, color), { shows, head: head < 0 ? undefined : head });
    for (const [name, part] of Object.entries(parts)) this.addMatrix(name, part);
    heads.forEach(({ x, y, side: w }, head) => this.addMap({ x, y, w, h: w }, head));
    for (const ramp of ramps) this.addRamp(ramp);
    this.svg.append(rect("clear", { x: 0, y: top, w: left, h: side }, { "data-words": "" }));
    [this.followed, this.pointed, this.inside] = [
      svg("g", { class: "followed" }),
      svg("g"),
      svg("g"),
    ];
    this.svg.append(this.followed);
    this.addTexts();
    this.svg.append(this.pointed, this.inside);
  }

  add(node, thing) {
    this.things.push({ node, ...thing });
    this.svg.append(node);
  }

  addMatrix(name, part) {
    const { steps } = this;
    for (let head = 0; head < (part.square ? steps.H : part.bands); head++) {
      const node = svg("g");
      const banded = part.bands > 1;
      node.append(...this.bandParts(name, part, head));
      if (name === "context") {
        const merged = svg("g", { class: "passive" }, this.imageOf("merged", part, head));
        node.append(merged);
        this.merged.push(merged);
      }
      const shift = this.plan.gap * ((part.bands - 1) / 2 - head);
      if (banded) this.bands.push({ node, name, shift: part.transposed ? [0, shift] : [shift, 0] });
      this.add(node, {
        shows: name,
        ...((part.square || banded) && { head, others: part.square && 0 }),
      });
    }
  }

  /** Return the image of one head's part of a matrix; what is hidden shows the hatching behind it. */
  imageOf(name, part, head) {
    const { steps } = this;
    const box = boxOf(part, head);
    const place = (down, right) => (part.transposed ? [right, down] : [down, right]);
    const valueAt = (down, right) => steps.value(name, head, ...place(down, right));
    const cells = cellsOf(box.rows, box.columns, valueAt);
    if (name === "weights")
      cells.hidden = cellsOf(box.rows, box.columns, (...at) => steps.hidden(head, ...at)).values;
    const colours = name === "weights" ? this.weights : this.signed(steps.most[name]);
    const marks = {
      class: name === "weights" ? "" : "signed",
      "data-part": name,
      "data-band": head,
    };
    return makeImage(cells, colours, box, marks);
  }

  /** Return an image, lines of paper between its cells, and a frame. */
  bandParts(name, part, head) {
    const { x, y, w, h, rows, columns } = boxOf(part, head);
    let d = "";
    const across = part.square || part.transposed ? columns : 1;
    const down = part.transposed ? 1 : rows;
    for (let i = 1; i < across; i++) d += `M${x + (i * w) / across} ${y}v${h}`;
    for (let i = 1; i < down; i++) d += `M${x} ${y + (i * h) / down}h${w}`;
    const nodes = [
      this.imageOf(name, part, head),
      svg("path", { class: "stroke paper-line passive", d }),
    ];
    if (name === "weights" && this.steps.masked)
      nodes.unshift(rect("", { x, y, w, h }, { fill: `url(#${this.id})` }));
    const colour = ["q", "k", "v"].includes(name) ? name : "line";
    return [
      ...nodes,
      rect(`stroke passive ${colour}`, { x: x - 0.5, y: y - 0.5, w: w + 1, h: h + 1 }),
    ];
  }

  addMap(box, head) {
    const { S, value } = this.steps;
    const cells = cellsOf(S, S, (row, column) => value("weights", head, row, column));
    const node = svg(
      "g",
      { "data-head": head },
      makeImage(cells, this.weights, box),
      rect("stroke line passive", box),
    );
    this.add(node, { shows: "weights", head, others: 0.55 });
  }

  addRamp({ x, y, w, weights }) {
    const colours = weights ? this.weights : this.signed(1);
    const cells = cellsOf(1, 128, (_, i) => (weights ? i / 127 : (2 * i) / 127 - 1));
    const box = { x, y, w, h: 8 };
    this.svg.append(
      makeImage(cells, colours, box, { class: weights ? "" : "signed" }),
      rect("stroke line", box),
    );
  }

  addTexts() {
    this.texts = [];
    for (const each of this.plan.texts) {
      const { text, x, y, shows, color, size, bold, align, rotated, after, head } = each;
      const look = [color, align, bold ? "bold" : "plain", size > 11 ? "large" : "small"].join(" ");
      if (after) {
        this.texts.at(-1).node.append(svg("tspan", { class: look, dx: x, y }, text));
        continue;
      }
      const node = svg(
        "text",
        { class: look, x, y, transform: rotated ? `rotate(-90 ${x} ${y})` : "" },
        text,
      );
      if (head !== undefined) node.dataset.head = head;
      this.texts.push({ ...each, node });
      this.add(node, { shows });
    }
  }

  /** Size the picture; words are never smaller than their size. */
  zoom(zoom) {
    this.svg.style.width = `${this.plan.width * zoom}px`;
    this.svg.style.setProperty("--small", Math.min(1, zoom));
  }

  /** Say whether the bands of a matrix stand separately. */
  isSeparate(name, stage) {
    const { split, together } = stageAt(stage);
    return name === "context" ? !together : Boolean(split);
  }

  /** Show what is followed, at a stage, and a cell with what it is made of. */
  show(view, cell, inside) {
    const { stage, row, head } = view;
    const followed = `${stage} ${row} ${head}`;
    if (this.shown !== followed) this.follow(view); // who points at numbers changes nothing else
    this.shown = followed;
    this.pointed.replaceChildren(...(cell ? this.outline(this.cellBox(cell, stage), "ink") : []));
    this.inside.replaceChildren(
      ...(inside ? insideParts(inside, this.signed, this.plan.bars) : []),
    );
  }

  follow({ stage, row, head, best }) {
    this.showThings(stage, head);
    for (const { node, row: own, key, head: ownHead } of this.texts) {
      const followed = row >= 0 && own === row;
      node.classList.toggle("followed", followed);
      node.classList.toggle(
        "highlighted",
        followed || ownHead === head || (key !== undefined && key === best?.column),
      );
    }
    this.followed.replaceChildren(...(row < 0 ? [] : this.followedParts(stage, row, head, best)));
  }

  showThings(stage, head) {
    for (const { node, shows, head: own, others = visibilityOfOthers(stage) } of this.things) {
      const shared = own === undefined || own === head;
      node.style.opacity = visibilityOf(shows, stage) * (shared ? 1 : others);
    }
    for (const { node, name, shift } of this.bands)
      node.style.transform = this.isSeparate(name, stage)
        ? ""
        : `translate(${shift[0]}px, ${shift[1]}px)`;
    for (const node of this.merged) node.style.opacity = Number(Boolean(stageAt(stage).together));
  }

  cellBox({ name, head, row, column }, stage) {
    const part = this.plan.parts[name];
    const { x, y, w, h, rows, columns } = boxOf(part, head);
    const shift =
      this.isSeparate(name, stage) || part.bands === 1
        ? 0
        : this.plan.gap * ((part.bands - 1) / 2 - head);
    const [down, right] = part.transposed ? [column, row] : [row, column];
    const [left, top] = part.transposed ? [x, y + shift] : [x + shift, y];
    return {
      x: left + (right * w) / columns,
      y: top + (down * h) / rows,
      w: w / columns,
      h: h / rows,
    };
  }

  outline({ x, y, w, h }, colour, opacity = 1) {
    return [
      rect("stroke paper-line passive", { x: x - 2, y: y - 2, w: w + 4, h: h + 4 }, { opacity }),
      rect(
        `stroke passive ${colour}`,
        { x: x - 1, y: y - 1, w: w + 2, h: h + 2 },
        { opacity, "stroke-width": 1.5 },
      ),
    ];
  }

  /** Light the row of the word that is followed, its scores as lines to the keys, its weights as lines to the values. */
  followedParts(stage, row, head, best) {
    const { parts, top, side, gap } = this.plan;
    const { S, value, word } = this.steps;
    const { x, q, k, v, scores, weights, context, out } = parts;
    const visibility = (...names) => Math.min(...names.map((name) => visibilityOf(name, stage)));
    const [meets, mixes] = [visibility("q", "k", "scores"), visibility("weights", "v", "context")];
    const [cell, tall] = [side / S, v.h / S];
    const [y, bottom, key, start] = [
      top + (row + 0.5) * cell,
      top + side,
      k.y + k.h + 3,
      q.x + q.w + 3,
    ];
    const rows = Object.entries({ x, q, scores, weights, context, out }).filter(([, part]) => part);
    const nodes = rows.flatMap(([, part]) => [
      rect("veil", { x: part.x - 2, y: top - 2, w: part.w + 4, h: row * cell + 2 }),
      rect("veil", { x: part.x - 2, y: y + cell / 2, w: part.w + 4, h: (S - row - 1) * cell + 2 }),
    ]);
    const values = Array.from({ length: S }, (_, j) => value("scores", head, row, j));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    for (let j = 0; j < S; j++) {
      const size = ((values[j] - low) / (high - low || 1)) ** 2;
      const [at, middle] = [scores.x + (j + 0.5) * cell, (y + key) / 2];
      const score = `M${start} ${y}C${(start + at) / 2} ${middle} ${at} ${middle} ${at} ${key}`;
      nodes.push(line(score, 0.5 + 3 * size, meets * (0.18 + 0.7 * size)));
      const weight = Math.max(0, value("weights", head, row, j));
      const [from, to] = [weights.x + (j + 0.5) * cell, v.y + (j + 0.5) * tall];
      const curve = `M${from} ${y + cell / 2 + 1}C${from} ${bottom + 60} ${v.x - 60} ${to} ${v.x - 4} ${to}`;
      if (weight > 0.005) nodes.push(line(curve, 0.75 + 5 * weight, mixes * (0.3 + 0.6 * weight)));
      const pale = { "fill-opacity": mixes * 0.72 * (1 - Math.sqrt(weight)) };
      nodes.push(rect("veil", { x: v.x, y: to - tall / 2, w: v.w, h: tall }, pale));
      if (j === best?.column)
        nodes.push(
          svg(
            "text",
            { x: v.x + v.w + 8, y: to + 4, opacity: mixes },
            `${word(j)} ${number(weight)}`,
          ),
        );
    }
    const band = boxOf(v, head);
    const [middle, tip] = [band.x + band.w / 2, y + cell / 2 + 3];
    nodes.push(
      line(`M${middle} ${v.y - 3}V${tip + 5}`, 3, mixes),
      line(`M${middle} ${tip}l-4 7h8z`, 0, mixes),
    );
    const through = [
      [x, q, visibility("x", "q")],
      [scores, weights, visibility("scaling")],
      [context, out, visibility("output")],
    ];
    for (const [from, to, opacity] of through)
      if (from) nodes.push(line(`M${from.x + from.w + 3} ${y}H${to.x - 3}`, 1.5, opacity));
    for (const [name, part] of rows) {
      const inset = this.isSeparate(name, stage) ? 0 : (gap * (part.bands - 1)) / 2;
      const box = { x: part.x + inset, y: y - cell / 2, w: part.w - 2 * inset, h: cell };
      nodes.push(...this.outline(box, "accent", visibility(name)));
    }
    return nodes;
  }
}

/** Draw what a number is made of as bars, below the matrices. */
function insideParts({ title, parts, total, note = "" }, signed, { top, tall }) {
  const { left, wide } = BAR;
  const step = parts.length > BAR.few ? BAR.step : BAR.fewStep;
  const base = top + 18 + tall;
  const text = (words, x, y, look = "ink center") => svg("text", { class: look, x, y }, words);
  const heading = text(title, left, top, "ink bold large left");
  heading.append(svg("tspan", { class: "plain", dx: 8 }, `= ${number(total)}`));
  heading.append(svg("tspan", { class: "muted small plain", dx: 24 }, note));
  if (!parts.length) return [heading];
  const most = Math.max(...parts.map(({ value }) => Math.abs(value))) || 1;
  const below = base + 16 + tall * Math.max(0, ...parts.map(({ value }) => -value / most));
  const bars = parts.flatMap(({ name, value, highlighted }, i) => {
    const [x, h] = [left + i * step, (tall * Math.abs(value)) / most];
    const box = { x, y: value < 0 ? base : base - h, w: wide, h };
    const colour = shade(value, signed(most));
    const style = `fill: rgb(${rgbOf(colour).join(" ")} / ${(colour >>> 24) / 255})`;
    return [
      rect(`signed${highlighted ? " highlighted" : ""}`, box, { style }),
      text(number(value), x + wide / 2, base - 4 - (value < 0 ? 0 : h)),
      text(name, x + wide / 2, below, "muted center"),
    ];
  });
  return [
    heading,
    ...bars,
    line(`M${left - 4} ${base}h${(parts.length - 1) * step + wide + 8}`, 1, 1, "line"),
  ];
}
