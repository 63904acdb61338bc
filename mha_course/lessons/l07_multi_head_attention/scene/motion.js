// What a stage does, as motion: each picture depends only on the fraction of the stage that is done.
// Every number shown comes from this pass.

import { clamp, number, svg } from "../../../widgets/dom.js";
import { shade } from "../../../widgets/matrix.js";
import { barsOf, cssOf } from "./bars.js";
import { boxOf, cellOf, ease, indices, mix, mixBox, rowOf } from "./layout.js";
import { lookInside } from "./numbers.js";
import { isUnfolded, stageAt } from "./stages.js";

const TALL = 58; // pixels of the longest bar of a row

/** Return the point at a share of the length of a path. */
const along = (path, share) => path.getPointAtLength(share * path.getTotalLength());

export class Motion {
  constructor(brush) {
    this.brush = brush;
  }

  /** Draw the motion of a stage at a fraction of it. */
  draw({ stage, fraction, row, head, best }) {
    const { steps } = this.brush;
    this.brush.clear();
    const move = this[stageAt(stage).name.replace(" ", "_")];
    if (stage < 0 || (fraction === 1 && stageAt(stage).name !== "scaling")) return;
    if (!steps.plan.parts.x && stage < 2) return; // nothing can come from an x that is not known
    const { S, H, D, value, plan } = steps;
    Object.assign(this, { steps, S, H, D, value, plan, parts: plan.parts, stage, head });
    this.row = Math.max(row, 0);
    this.rest = row < 0 ? 1 : 0.4; // of rows that are not followed
    this.key = best?.column ?? 0;
    move.call(this, fraction);
  }

  /** Return the final box of one head's row of a matrix; without a head, that of all heads. */
  place(name, row, head) {
    const part = this.parts[name];
    return rowOf(part, head === undefined ? part : this.box(name, head), row);
  }

  /** Return the final box of one head's part of a matrix. */
  box(name, head) {
    return boxOf(this.parts[name], head, this.head, Number(isUnfolded(name, this.stage)));
  }

  /** Show the rows of a matrix one after another, between two fractions; without a head, those of all heads. */
  fill(name, fraction, begin, end, heads = [this.head]) {
    const step = (end - begin) / this.S;
    for (const head of heads)
      for (let i = 0; i < this.S; i++) {
        if (i === this.row && head === this.head) continue;
        const pale = head === this.head ? 1 : (stageAt(this.stage).others ?? 1);
        this.brush.faintly(
          this.rest * pale * ease(fraction, begin + i * step, begin + (i + 1) * step),
          () => this.brush.rows(name, head, i, 1, this.place(name, i, head)),
        );
      }
  }

  /** Rows of numbers come out of their words. */
  input(fraction) {
    for (let i = 0; i < this.S; i++) {
      const begin = 0.05 + (0.65 * i) / this.S;
      const t = ease(fraction, begin, begin + 0.3);
      const box = this.place("x", i);
      const from = { ...box, x: box.x - 40, w: 2 };
      this.brush.faintly(t, () => this.brush.row("x", i, mixBox(from, box, t)));
    }
  }

  /** A row of x goes to q, k and v, and becomes theirs on the way; k's turns upright. */
  projection(fraction) {
    const arrows = this.plan.strokes.filter(({ shows }) => shows === "projection");
    const paths = ["q", "k", "v"].map((name) => {
      const { path } = arrows.find(({ color }) => color === name);
      return [name, svg("path", { d: path })];
    });
    for (let i = 0; i < this.S; i++) {
      const begin = 0.04 + (0.56 * i) / this.S;
      const t = ease(fraction, begin, begin + 0.4);
      if (t > 0) for (const [name, path] of paths) this.project(name, path, i, t);
    }
  }

  project(name, path, i, t) {
    const { brush, parts } = this;
    const [from, end] = [this.place("x", i), this.place(name, i)];
    const upright = Boolean(parts[name].transposed);
    const [long, thick] = upright ? [end.h, end.w] : [end.w, end.h];
    const [w, h] = [mix(from.w, long, t), mix(from.h, thick, t)];
    const box = { x: -w / 2, y: -h / 2, w, h };
    const [start, here, stop] = [0, t, 1].map((share) => along(path, share));
    const shift = (x, w) => mix(from[x] + from[w] / 2 - start[x], end[x] + end[w] / 2 - stop[x], t);
    brush.pen.save();
    brush.pen.translate(here.x + shift("x", "w"), here.y + shift("y", "h"));
    if (upright) brush.pen.rotate((Math.PI / 2) * ease(t, 0.2, 0.9));
    if (t < 0.55) brush.row("x", i, box);
    brush.faintly(ease(t, 0.15, 0.5), () => brush.row(name, i, box));
    if (t < 1) brush.frame(box, name);
    brush.pen.restore();
  }

  /** q, k and v are split; the followed head unfolds, the others fold. */
  head_splitting(fraction) {
    const { brush } = this;
    const [cut, unfolded] = [ease(fraction, 0.04, 0.25), ease(fraction, 0.3, 1)];
    for (const name of ["q", "k", "v"]) {
      const boxes = this.heads(name, name, unfolded, mix(1, 0.25, unfolded));
      for (const { x, y, w, h } of boxes.slice(1)) {
        const edge = this.parts[name].transposed ? { w: cut * w, h: 2 } : { w: 2, h: cut * h };
        brush.fill({ x, y, ...edge }, brush.colours.ink);
      }
    }
  }

  /** Draw all heads of a matrix, the followed one unfolded this far, the others this pale; return their boxes. */
  heads(name, colour, unfolded, pale) {
    const part = this.parts[name];
    const boxes = indices(this.H).map((head) => boxOf(part, head, this.head, unfolded));
    for (const [head, box] of boxes.entries())
      this.brush.faintly(head === this.head ? 1 : pale, () => {
        this.brush.rows(name, head, 0, this.S, box, part.transposed);
        this.brush.frame(box, colour);
      });
    return boxes;
  }

  /** Numbers of q and k meet as products, which fall into their score; then the row is filled, then all rows. */
  scores(fraction) {
    const { brush, S, head, row, key } = this;
    this.multiply(fraction);
    const last = Math.floor(clamp((fraction - 0.66) / 0.18, 0, 1) * S);
    for (const j of indices(last).filter((j) => j !== key))
      brush.values("scores", [this.value("scores", head, row, j)], this.cell("scores", j));
    if (last && last < S) brush.frame(this.place("k", last, head), "accent", 2);
    this.fill("scores", fraction, 0.84, 1);
  }

  /** Return the position of a number in the followed head's matrix, by default in the followed row. */
  cell(name, column, row = this.row) {
    return cellOf(this.parts[name], this.box(name, this.head), row, column);
  }

  multiply(fraction) {
    const { brush, steps, head, row, key, D } = this;
    const { parts, total } = lookInside(steps, { name: "scores", head, row, column: key });
    const { bars, base, most } = barsOf(parts, this.plan.bars);
    let fallen = 0;
    for (const [i, bar] of bars.entries()) {
      const late = fraction - (0.1 * i) / bars.length;
      const [meets, falls] = [ease(late, 0.18, 0.3), ease(late, 0.42, 0.54)];
      if (falls === 1) fallen += bar.value;
      const d = Number(bar.name); // NaN for a bar that stands for those without room
      if (d < D)
        brush.faintly(1 - meets, () => {
          this.factor("q", row, d, { ...bar, y: base - 33, h: 11 }, ease(late, 0.02, 0.16), -5);
          this.factor("k", key, d, { ...bar, y: base - 14, h: 11 }, ease(late, 0.06, 0.2), 22);
        });
      if (meets > 0 && falls < 1) this.multiplied(bar, base, most, meets, falls);
    }
    if (!fallen) return;
    const goal = this.cell("scores", key);
    const sum = fraction > 0.64 ? total : fallen;
    brush.values("scores", [sum], goal);
    if (fraction < 0.84) brush.write(number(sum), goal.x + goal.w / 2, goal.y - 4, "accent");
  }

  /** Draw a product that grows, and falls into its score. */
  multiplied(bar, base, most, meets, falls) {
    const { brush } = this;
    const grown = mixBox({ ...bar, y: base, h: 0 }, bar, meets);
    const box = mixBox(grown, this.cell("scores", this.key), falls);
    brush.fill(box, brush.colours.zero);
    brush.fill(box, cssOf(shade(bar.value, brush.signed(most))));
    const y = Math.min(bar.y, base) - 4;
    if (!falls) brush.faintly(meets, () => brush.write(number(bar.value), bar.x + 10, y));
  }

  /** Draw a number of q or k on its way to where it is multiplied. */
  factor(name, row, d, to, goes, below) {
    const value = this.value(name, this.head, row, d);
    const box = mixBox(this.cell(name, d, row), to, goes);
    this.brush.values(name, [value], box);
    this.brush.frame(box, name);
    if (goes === 1) this.brush.write(number(value), box.x + 10, box.y + below, name);
  }

  /** The row of scores rises as bars, passes the division, which makes them smaller, and the mask's door. */
  scaling(fraction) {
    const { S, head, row } = this;
    const [divide, door] = this.plan.doors;
    const shift = ease(fraction, 0.2, 0.8) * (this.parts.weights.x - this.parts.scores.x);
    const bars = indices(S).map((j) => {
      const score = this.value("scores", head, row, j);
      const { x, w } = this.cell("scores", j);
      const masked = this.value("masked_scores", head, row, j);
      const scaled = Number.isFinite(masked) ? masked : score / Math.sqrt(this.D);
      const middle = x + w / 2 + shift;
      // Hidden scores stop at the mask, and unknown ones at the division.
      const end = masked === -Infinity ? door : Number.isNaN(masked) ? divide : this.plan.width;
      const [at, alpha] = [Math.min(middle, end - 3), 1 - ease(middle, end - 8, end)];
      const smaller = ease(middle, divide - 6, divide + 10);
      const height = mix(score, scaled, smaller) * ease(fraction, 0.04, 0.2);
      return { at, height, value: smaller < 0.5 ? score : scaled, alpha };
    });
    this.bars(bars, this.largestScore());
    if (!this.steps.masked || fraction === 1) return;
    const { y, h } = this.place("scores", row);
    const { accent } = this.brush.colours;
    this.brush.fill({ x: door - 1.5, y: y - 26, w: 3, h: h + 34 }, accent); // it is shut
  }

  /** Return the size of the followed row's largest score. */
  largestScore() {
    const { S, head, row } = this;
    const sizes = indices(S).map((j) => Math.abs(this.value("scores", head, row, j)));
    return Math.max(...sizes.filter(Number.isFinite), 0) || 1;
  }

  /** Draw numbers as bars on the followed row, as tall as fits, with the largest written. */
  bars(bars, most) {
    const { brush, row, S, key } = this;
    const { y, h } = this.place("scores", row);
    const up = (row + 0.5) * h > TALL ? -1 : 1;
    const wide = (this.plan.side / S) * 0.7;
    const order = indices(S).sort((a, b) => bars[b].height - bars[a].height);
    const written = [];
    for (const j of order) {
      const bar = bars[j];
      const size = ((bar.height * TALL) / most) * up;
      const box = { x: bar.at - wide / 2, y: y + h / 2, w: wide, h: size };
      const colour = brush.colours[j === key ? "accent" : "muted"];
      brush.faintly(bar.alpha ?? 1, () => brush.fill(box, colour));
      const free = bar.alpha !== 0 && written.every((at) => Math.abs(at - bar.at) > 28);
      if (!free || bar.height / most <= 0.12) continue;
      written.push(bar.at);
      brush.write(number(bar.value), bar.at, y + h / 2 + size + (up < 0 ? -4 : 13));
    }
  }

  /** Bars of scores become bars of exp, then fractions of the row's sum, then weights. */
  softmax(fraction) {
    const { brush, S, head, row } = this;
    const [power, normalised] = [ease(fraction, 0.06, 0.3), ease(fraction, 0.4, 0.62)];
    const sinks = ease(fraction, 0.72, 0.84);
    const most = this.largestScore();
    const of = (name) => indices(S).map((j) => this.value(name, head, row, j));
    const [scores, weights] = [of("masked_scores"), of("weights")];
    const top = Math.max(...scores);
    const known = !Number.isNaN(top);
    const bars = indices(S).map((j) => {
      const score = Math.max(scores[j], -most) / most; // as they came from scaling
      const exp = top === -Infinity ? 0 : Math.exp(scores[j] - top);
      const start = scores[j] === -Infinity ? 0 : score;
      const before = known ? mix(start, exp, power) : 0;
      const height = mix(before, weights[j], normalised) * (1 - sinks);
      const value = !known || normalised >= 0.5 ? weights[j] : power < 0.5 ? scores[j] : exp;
      const { x, w } = this.cell("weights", j);
      return { at: x + w / 2, height, value };
    });
    brush.faintly(sinks, () => brush.rows("weights", head, row, 1, this.place("weights", row)));
    this.bars(bars, 1);
    if ((known ? power === 1 : normalised > 0.5) && fraction < 0.84) this.sum(bars, normalised);
    this.fill("weights", fraction, 0.84, 1);
  }

  /** Write what the bars of a row add up to. */
  sum(bars, share) {
    const { x, y, w, h } = this.place("weights", this.row);
    const up = (this.row + 0.5) * h > TALL;
    const total = number(bars.reduce((all, { value }) => all + value, 0));
    const words = share > 0.5 ? `the row sums to ${total}` : `exp of the row sums to ${total}`;
    this.brush.write(words, x + w, up ? y - TALL - 12 : y + TALL + 24, "ink", "right");
  }

  /** The rows of v shrink by their weights, and add up to the context. */
  weighted_sum(fraction) {
    const { brush, S, D, H, head, row } = this;
    const shrinks = ease(fraction, 0.05, 0.3);
    const goal = this.place("context", row, head);
    const sum = new Float64Array(D);
    const flying = [];
    for (let j = 0; j < S; j++) {
      const weight = this.value("weights", head, row, j);
      const pours = ease(fraction, 0.34 + (0.26 * j) / S, 0.54 + (0.26 * j) / S);
      const from = this.place("v", j, head);
      const size = mix(from.h, goal.h * Math.min(1, weight), shrinks);
      const small = { ...from, y: from.y + (from.h - size) / 2, h: size };
      const box = mixBox(small, { ...goal, y: goal.y + (goal.h - size) / 2, h: size }, pours);
      const values = indices(D).map((d) => this.value("v", head, j, d) * mix(1, weight, shrinks));
      if (pours < 1) flying.push({ j, weight, box, values });
      else for (const d of sum.keys()) sum[d] += values[d];
    }
    if (flying.length < S) brush.values("context", [...sum], goal);
    for (const { j, weight, box, values } of flying) {
      brush.values("v", values, box);
      if (weight > 0.05 && shrinks === 1) {
        const words = `${number(weight)} × v of ${this.steps.word(j)}`;
        brush.frame(box, "accent");
        brush.write(words, box.x - 6, box.y + box.h / 2 + 4, "accent", "right");
      }
    }
    this.fill("context", fraction, 0.82, 1, indices(H));
  }

  /** The contexts of the heads slide side by side. */
  concatenation(fraction) {
    const unfolded = 1 - ease(fraction, 0.15, 0.95);
    this.heads("context", "line", unfolded, mix(0.25, 1, ease(fraction, 0.02, 0.3)));
  }

  /** The rows of all heads go through W_O to out, and x comes around to be added. */
  output(fraction) {
    const { brush, S, row } = this;
    for (let i = 0; i < S; i++) {
      const begin = 0.04 + (0.3 * i) / S;
      const t = ease(fraction, begin, begin + 0.22);
      const box = mixBox(this.place("context", i), this.place("out", i), t);
      if (t <= 0) continue;
      brush.faintly(i === row ? 1 : this.rest, () => {
        if (t < 0.6) brush.row("merged", i, box);
        brush.faintly(ease(t, 0.3, 0.6), () => brush.row("out", i, box));
      });
    }
    if (this.parts.x) this.add(fraction);
  }

  /** The row of x goes around, and meets the row of out where the two are added. */
  add(fraction) {
    const { brush, row, plan } = this;
    const [x, out] = [this.place("x", row), this.place("out", row)];
    const ring = { x: out.x + out.w + 18, y: plan.top + plan.side / 2 };
    const { path } = plan.strokes.find(({ shows }) => shows === "residual");
    const fromRow = `M${x.x + x.w / 2} ${x.y}${path.replace("M", "L")}`;
    const { x: x0, y: y0 } = along(svg("path", { d: fromRow }), ease(fraction, 0.5, 0.92));
    const shrinks = ease(fraction, 0.82, 0.94);
    const size = { w: mix(x.w, 14, shrinks), h: mix(x.h, 6, shrinks) };
    const small = { x: ring.x - 7, y: ring.y - 3, w: 14, h: 6 };
    brush.faintly(ease(fraction, 0.48, 0.52) * (1 - ease(fraction, 0.94, 1)), () => {
      const box = { x: x0 - size.w / 2, y: y0 - size.h / 2, ...size };
      brush.row("x", row, box);
      brush.frame(box, "accent");
    });
    const leaves = ease(fraction, 0.72, 0.94);
    brush.faintly(Math.min(1, 4 * leaves) * (1 - ease(fraction, 0.94, 1)), () => {
      brush.row("out", row, mixBox(out, small, leaves));
      brush.frame(mixBox(out, small, leaves), "accent");
    });
  }
}
