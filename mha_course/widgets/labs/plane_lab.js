// The lab of lessons 0 and 1: computes what plane.py draws at the start.

import { clamp } from "../dom.js";
import { inView } from "../in_view.js";
import { figure } from "./bars.js";
import { renderLab } from "./lab.js";
import { KINDS } from "./panels.js";

const [SHORTEST, LONGEST, TARGET] = [0.2, 1.5, 0.8]; // as in plane.py
const NAMES = ["a", "b", "c"];
const lengthOf = (number) => clamp(number, SHORTEST, LONGEST);
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** Return all values after a move; null among points that were dragged stands for one that stays where it is. */
function valuesAfter(moved, before) {
  const merged = (sent, old) => (Array.isArray(sent) ? sent.map((one, i) => one ?? old[i]) : sent);
  const after = ([name, old]) => [name, name in moved ? merged(moved[name], old) : old];
  return Object.fromEntries(Object.entries(before).map(after));
}

/** Keep the arrows in step with their length, and in the plane. */
function scaled({ length, tokens }, moved, before, reach) {
  const most = reach / Math.max(1e-9, ...tokens.flat().map(Math.abs));
  const factor = moved.tokens ? 1 : Math.min(lengthOf(length) / before.length, most);
  const tips = tokens.map((tip) => tip.map((x) => clamp(x * factor, -reach, reach)));
  return { length: moved.tokens ? lengthOf(length) : before.length * factor, tokens: tips };
}

/** Return a matrix and its arrows; one that was dragged sets its angle and stretch. */
function turned(name, values, before, tokens) {
  let [angle, stretch] = [values[`${name}_turn`], values[`${name}_stretch`]];
  const isDragged = (tip, i) => tip.some((x, axis) => x !== before[name][i][axis]);
  const dragged = values[name].findIndex(isDragged);
  if (dragged >= 0) {
    const [[x, y], [fromX, fromY]] = [values[name][dragged], tokens[dragged]];
    const degrees = ((Math.atan2(y, x) - Math.atan2(fromY, fromX)) * 180) / Math.PI;
    angle = Math.round(((degrees + 540) % 360) - 180);
    stretch = Math.hypot(x, y) / Math.hypot(fromX, fromY);
  }
  stretch = lengthOf(stretch);
  const [cos, sin] = [Math.cos, Math.sin].map((f) => stretch * f((angle * Math.PI) / 180));
  const tips = tokens.map(([x, y]) => [cos * x - sin * y, sin * x + cos * y]);
  return { [`${name}_turn`]: angle, [`${name}_stretch`]: stretch, [name]: tips };
}

/** Return the scores of queries and keys, and the weights. */
function attend(q, k) {
  const scores = q.map(([x, y]) => k.map((key) => x * key[0] + y * key[1]));
  const weights = scores.map((row) => {
    const powers = row.map((score) => Math.exp((score - Math.max(...row)) / Math.SQRT2));
    return powers.map((power) => power / sumOf(powers));
  });
  return [scores, weights];
}

function read(weights, projected) {
  const aim = weights[0][2];
  if (projected && aim >= TARGET) return `✓ Reached: a gives ${figure(aim)} to c.`;
  if (projected) return `a gives ${figure(aim)} to c; make it ${TARGET}.`;
  const largest = weights.map((row) => Math.max(...row));
  const to = (share, i) => `${NAMES[i]} to ${NAMES[weights[i].indexOf(share)]} ${figure(share)}`;
  const mean = figure(sumOf(largest) / largest.length);
  return `Largest shares: ${largest.map(to).join(", ")}. The largest share of a row is ${mean} on average.`;
}

/** Return the state after a move. */
function compute(moved, { panels: [plane, table], values: before }) {
  let values = valuesAfter(moved, before);
  if (values.tokens) values = scaled(values, moved, before, plane.reach);
  else {
    const tokens = plane.paths.map(([, tip]) => tip);
    const both = ["queries", "keys"].map((name) => turned(name, values, before, tokens));
    values = Object.assign({}, values, ...both);
  }
  const [q, k] = values.tokens ? [values.tokens, values.tokens] : [values.queries, values.keys];
  const [scores, weights] = attend(q, k);
  const tips = values.tokens ? q : [...k, ...q];
  const arrows = plane.arrows.map((arrow, i) => ({ ...arrow, at: tips[i] }));
  const contextOf = (row) => [0, 1].map((axis) => sumOf(row.map((w, i) => w * k[i][axis])));
  const dots = plane.dots.map((dot, i) => ({ ...dot, at: contextOf(weights[i]) }));
  const rows = table.rows.map((row, i) => {
    const parts = row.parts.map((part, j) => ({ ...part, value: weights[i][j] }));
    return { ...row, numbers: scores[i], parts };
  });
  const panels = [
    { ...plane, arrows, dots },
    { ...table, rows },
  ];
  return { values, panels, text: read(weights, !values.tokens) };
}

const render = (context) => renderLab(context, KINDS, { compute });

export default { render: inView(render) };
