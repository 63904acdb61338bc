// Draws the scene as SVG: Python's plan, matrices as images, and the followed word. Stage,
// word and head change how visible things are, and where bands are. Motion is drawn elsewhere.

import { clamp, svg } from "../../../widgets/dom.js";
import { insideParts } from "./bars.js";
import { linesOf, rowsOf } from "./follow.js";
import { boxOf, cellOf, ease, indices, mix } from "./layout.js";
import { cellsOf, imageOf, line, outline, painted, rect } from "./shapes.js";
import { isMade, isUnfolded, stageAt, visibilityOf } from "./stages.js";

const FADE = 0.06; // the fraction of a stage that its highlights take to appear

export class Picture {
  constructor(steps, brush) {
    const id = `hidden-${Math.random().toString(36).slice(2)}`; // it counts in the whole page
    Object.assign(this, { steps, brush, id, plan: steps.plan });
    this.things = []; // {node, at, contents, shows}: how visible it is follows the stage and the head
    this.bands = []; // {node, name, head, home}: all together, or one unfolded
    this.merged = [];
    this.texts = [];
    const { width, height, left, top, side, strokes, parts, heads, ramps } = this.plan;
    this.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "picture" });
    const stripes = svg("path", { d: "M-1 1L1 -1M0 4L4 0M3 5L5 3", class: "stroke hatch" });
    const pattern = { id: this.id, width: 4, height: 4, patternUnits: "userSpaceOnUse" };
    this.svg.append(svg("defs", {}, svg("pattern", pattern, stripes)));
    for (const { path, color, width: wide, shows, head } of strokes)
      this.add(line(path, wide, color), shows, head < 0 ? undefined : head);
    for (const [name, part] of Object.entries(parts)) this.addMatrix(name, part);
    heads.forEach(({ x, y, side: w }, head) => this.addMap({ x, y, w, h: w }, head));
    for (const ramp of ramps) this.addRamp(ramp);
    this.svg.append(rect("clear", { x: 0, y: top, w: left, h: side }, { "data-words": "" }));
    this.lines = svg("g", { class: "followed" });
    this.rows = svg("g", { class: "followed" });
    this.pointed = svg("g");
    this.inside = svg("g");
    this.svg.append(this.rows, this.lines);
    this.addTexts();
    this.svg.append(this.pointed, this.inside);
  }

  /** Add an item that appears with a part of the picture; a head's items may be pale while others are followed. */
  add(node, shows, own, others, contents) {
    const dimmed = (stage) =>
      own === undefined || own === this.head ? 1 : (others ?? stageAt(stage).others ?? 1);
    const at = (stage) => visibilityOf(shows, stage) * dimmed(stage);
    this.things.push({ node, contents, shows, at });
    this.svg.append(node);
  }

  addMatrix(name, part) {
    const { steps } = this;
    const banded = part.bands > 1;
    for (let head = 0; head < (part.square ? steps.H : part.bands); head++) {
      const home = boxOf(part, head, head);
      const contents = svg("g", {}, ...this.contentsOf(name, part, head, home));
      const colour = ["q", "k", "v"].includes(name) ? name : "line";
      const frame = { x: home.x - 0.5, y: home.y - 0.5, w: home.w + 1, h: home.h + 1 };
      const node = svg("g", {}, contents, rect(`stroke passive ${colour}`, frame));
      if (banded) this.bands.push({ node, name, head, home });
      const owner = part.square || banded ? head : undefined;
      this.add(node, name, owner, part.square && 0, contents);
    }
  }

  /** Return the image of one head's part of a matrix, behind it the hatching or zero's colour, and lines on it. */
  contentsOf(name, part, head, box) {
    const { x, y, w, h, rows, columns } = box;
    const upright = (i) => `M${x + (i * w) / columns} ${y}v${h}`;
    const level = (i) => `M${x} ${y + (i * h) / rows}h${w}`;
    const d = [
      ...(part.square || part.transposed ? indices(columns).slice(1).map(upright) : []),
      ...(part.transposed ? [] : indices(rows).slice(1).map(level)),
    ].join("");
    const hatched = name === "weights" && this.steps.masked;
    const behind = hatched ? rect("", box, { fill: `url(#${this.id})` }) : rect("zero", box);
    const nodes = [behind, this.imageOf(name, part, head, box)];
    if (name === "context") {
      const image = this.imageOf("merged", part, head, box);
      const merged = svg("g", { class: "passive" }, rect("zero", box), image);
      this.merged.push(merged);
      nodes.push(merged);
    }
    return [...nodes, svg("path", { class: "stroke paper-line passive", d })];
  }

  imageOf(name, part, head, box) {
    const { x, y, w, h } = box;
    const place = { "data-part": name, "data-band": head };
    // A row of the sheet is a word, and in a transposed matrix words are side by side.
    const level = { x: 0, y: 0, width: h, height: w, transform: `matrix(0 1 1 0 ${x} ${y})` };
    const attributes = part.transposed ? { ...place, ...level } : place;
    return imageOf(this.brush.sheet(name, head), box, attributes);
  }

  addMap(box, head) {
    const contents = svg("g", {}, imageOf(this.brush.sheet("weights", head), box));
    const node = svg("g", { "data-head": head }, contents, rect("stroke line passive", box));
    this.add(node, "weights", head, 0.55, contents);
  }

  addRamp({ x, y, w, weights }) {
    const colours = weights ? this.brush.coloursOf("weights") : this.brush.signed(1);
    const cells = cellsOf(1, 128, (_, i) => mix(colours.low, 1, i / 127));
    const box = { x, y, w, h: 8 };
    const image = imageOf(painted(cells, colours), box);
    this.svg.append(rect("zero", box), image, rect("stroke line", box));
  }

  addTexts() {
    for (const each of this.plan.texts) {
      const { text, x, y, shows, color, size, bold, align, rotated, after, head } = each;
      const kind = [color, align, bold ? "bold" : "plain", size > 11 ? "large" : "small"].join(" ");
      if (after) {
        this.texts.at(-1).node.append(svg("tspan", { class: kind, dx: x, y }, text));
        continue;
      }
      const transform = rotated ? `rotate(-90 ${x} ${y})` : "";
      const node = svg("text", { class: kind, x, y, transform }, text);
      if (head !== undefined) node.dataset.head = head;
      this.texts.push({ ...each, node });
      this.add(node, shows);
    }
  }

  /** Show what is followed, at a fraction of a stage, and a cell with its computation. */
  show(view, cell, inside) {
    const { stage, fraction, row, head } = view;
    const { lines = 0, bars = 0 } = stageAt(stage);
    if (this.seen !== `${row} ${head}`) this.follow(view);
    this.seen = `${row} ${head}`;
    const still = `${stage} ${head} ${fraction === 1 || Math.min(fraction, FADE)}`;
    if (still !== this.still) this.showThings(view); // in the middle of a motion, nothing changes here
    this.still = still;
    const since = (begin) => (begin ? ease(fraction, begin, begin + FADE) : 1);
    this.lines.style.opacity = since(lines);
    this.inside.style.opacity = cell ? 1 : since(bars);
    this.pointed.replaceChildren(...(cell ? [outline(this.cellBox(cell, stage), "ink")] : []));
    const explained = `${this.plan.bars.left} ${inside?.text}`;
    if (explained !== this.explained)
      this.inside.replaceChildren(...insideParts(inside, this.brush, this.plan.bars));
    this.explained = explained;
  }

  /** Highlight the followed word, and unfold the followed head. */
  follow({ row, head, best }) {
    this.svg.classList.toggle("unfolds", this.head !== undefined && this.head !== head);
    this.head = head;
    this.still = null;
    for (const { node, row: own = NaN, key = NaN, head: ownHead } of this.texts) {
      node.classList.toggle("followed", own === row);
      const highlighted = own === row || ownHead === head || key === best?.column;
      node.classList.toggle("highlighted", highlighted);
    }
    const lines = row < 0 ? [] : linesOf(this.steps, { row, head, best });
    const rows = row < 0 ? [] : rowsOf(this.steps, { row });
    this.followed = [...lines, ...rows];
    this.lines.replaceChildren(...lines.map(({ node }) => node));
    this.rows.replaceChildren(...rows.map(({ node }) => node));
  }

  showThings({ stage, fraction, head }) {
    const fade = stage < 0 ? 1 : clamp(fraction / FADE, 0, 1);
    const { moves = [], together = false } = stageAt(stage);
    for (const { node, contents, shows, at } of [...this.things, ...this.followed]) {
      node.style.opacity = mix(at(stage - 1), at(stage), fade);
      if (!contents) continue;
      const [before, now] = [isMade(shows, stage - 1), isMade(shows, stage, fraction)];
      const present = mix(Number(before), Number(now), fade);
      contents.style.opacity = present;
      contents.style.visibility = present ? "" : "hidden"; // what is not there yet cannot be pointed at
      node.style.visibility = moves.includes(shows) && fraction < 1 ? "hidden" : "";
    }
    if (fraction < 1) this.svg.classList.remove("unfolds");
    for (const { node, name, head: own, home } of this.bands) {
      const part = this.plan.parts[name];
      const { x, y, w, h } = boxOf(part, own, head, Number(isUnfolded(name, stage)));
      const [wide, tall] = [w / home.w, h / home.h];
      const [left, top] = [x - home.x * wide, y - home.y * tall];
      node.style.transform = `translate(${left}px, ${top}px) scale(${wide}, ${tall})`;
    }
    for (const node of this.merged) node.style.opacity = Number(together);
  }

  cellBox({ name, head, row, column }, stage) {
    const part = this.plan.parts[name];
    const box = boxOf(part, head, this.head, Number(isUnfolded(name, stage)));
    return cellOf(part, box, row, column);
  }
}
