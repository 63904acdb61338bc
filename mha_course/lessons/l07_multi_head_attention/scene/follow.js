// The word that is followed: its row in every matrix, its scores as lines to the keys, its weights as lines to the
// values. Each thing is a node, and `at`, which says how visible it is at a stage, from 0 to 1.

import { number, svg } from "../../../widgets/dom.js";
import { boxOf, indices } from "./layout.js";
import { line, outline, rect } from "./shapes.js";
import { isMade, visibilityOf } from "./stages.js";

/** Return the visibility of something that belongs to several parts: that of the palest. */
const palest =
  (...names) =>
  (stage) =>
    Math.min(...names.map((name) => visibilityOf(name, stage)));

/** Return the visibility of something that appears only with a part. */
const onceMade = (name, visible) => (stage) => (isMade(name, stage) ? visible(stage) : 0);

/** Return the lines from q to every key, and from the weights to the values. */
export function linesOf({ plan, value, word, S }, { row, head, best }) {
  const { q, k, v, scores, weights } = plan.parts;
  const { top, side } = plan;
  const meets = onceMade("scores", palest("q", "k", "scores"));
  const mixes = onceMade("context", palest("weights", "v", "context"));
  const [cell, tall] = [side / S, v.h / S];
  const [y, bottom, key] = [top + (row + 0.5) * cell, top + side, k.y + k.h + 3];
  const values = indices(S).map((j) => value("scores", head, row, j));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const start = q.x + q.w + 3;
  const things = [];
  const add = (node, visible, share = 1) =>
    things.push({ node, at: (stage) => visible(stage) * share });
  for (let j = 0; j < S; j++) {
    const size = ((values[j] - low) / (high - low || 1)) ** 2;
    const [at, middle] = [scores.x + (j + 0.5) * cell, (y + key) / 2];
    const score = `M${start} ${y}C${(start + at) / 2} ${middle} ${at} ${middle} ${at} ${key}`;
    add(line(score, 0.5 + 3 * size), meets, 0.18 + 0.7 * size);
    const weight = Math.max(0, value("weights", head, row, j));
    const [from, to] = [weights.x + (j + 0.5) * cell, v.y + (j + 0.5) * tall];
    const curve = `M${from} ${y + cell / 2 + 1}C${from} ${bottom + 60} ${v.x - 60} ${to} ${v.x - 4} ${to}`;
    if (weight > 0.005) add(line(curve, 0.75 + 5 * weight), mixes, 0.3 + 0.6 * weight);
    const pale = rect("veil", { x: v.x, y: to - tall / 2, w: v.w, h: tall });
    add(pale, mixes, 1 - Math.sqrt(Math.min(1, weight)));
    const words = `${word(j)} ${number(weight)}`;
    if (j === best?.column)
      add(svg("text", { class: "right", x: v.x - 12, y: v.y + 16 }, words), mixes);
  }
  const { x, w } = boxOf(v, head, head);
  const [middle, tip] = [x + w / 2, y + cell / 2 + 3];
  add(line(`M${middle} ${v.y - 3}V${tip + 5}M${middle} ${tip + 1}l-4 5m4 -5l4 5`, 2), mixes);
  return things;
}

/** Return the frames around the row in every matrix, veils over the other rows, and lines from row to row. */
export function rowsOf({ plan, S }, { row }) {
  const { x, q, scores, weights, context, out } = plan.parts;
  const { top, side } = plan;
  const cell = side / S;
  const y = top + row * cell;
  const things = [];
  for (const [name, part] of Object.entries({ x, q, scores, weights, context, out })) {
    if (!part) continue;
    const wide = { x: part.x - 2, w: part.w + 4 };
    const above = rect("veil", { ...wide, y: top - 2, h: row * cell + 2 });
    const below = rect("veil", { ...wide, y: y + cell, h: (S - row - 1) * cell + 2 });
    things.push({ node: svg("g", {}, above, below), at: () => 1 });
    const frame = outline({ x: part.x, y, w: part.w, h: cell }, "accent");
    things.push({ node: frame, at: (stage) => visibilityOf(name, stage) });
  }
  const through = (from, to, at) =>
    things.push({ node: line(`M${from.x + from.w + 3} ${y + cell / 2}H${to.x - 3}`, 1.5), at });
  if (x) through(x, q, palest("x", "q"));
  through(scores, weights, palest("scaling"));
  through(context, out, palest("output"));
  return things;
}
