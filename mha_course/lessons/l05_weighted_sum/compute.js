// What lab.py computes, for a page without a kernel.

import { clamp } from "../../widgets/dom.js";
import { figure } from "../../widgets/labs/bars.js";
import { valuesAfter } from "../../widgets/without_kernel.js";

const FREE = [-1, 1.5]; // as in lab.py
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** Return weights that sum to 1: the one that moved keeps its size, the others make room. */
function shared(weights, before) {
  const kept = weights.map((weight) => clamp(weight, 0, 1));
  const moved = [...weights.keys()].filter((i) => weights[i] !== before[i]);
  const fixed = moved.length === 1 ? moved : [];
  const others = kept.filter((_, i) => !fixed.includes(i));
  const total = sumOf(others);
  const room = 1 - sumOf(fixed.map((i) => kept[i]));
  const share = (weight) => (total > 0 ? (weight * room) / total : room / others.length);
  return kept.map((weight, i) => (fixed.includes(i) ? weight : share(weight)));
}

/** Say whether a point lies in the hull of its corners, counter-clockwise, or on its edge. */
const inside = ([x, y], corners) =>
  corners.every(([fromX, fromY], i) => {
    const [toX, toY] = corners[(i + 1) % corners.length];
    return (toX - fromX) * (y - fromY) - (toY - fromY) * (x - fromX) >= -1e-9;
  });

/** Return the state after a move. */
export function compute(moved, { panels: [bars, plane], values: before }) {
  const { free, weights: sent } = valuesAfter(moved, before);
  const weights = free
    ? sent.map((weight) => clamp(weight, ...FREE))
    : shared(sent, before.weights);
  const corners = plane.arrows.slice(0, -1).map(({ at }) => at);
  const path = [[0, 0]]; // each value times its weight, head to tail
  corners.forEach(([x, y], i) =>
    path.push([path[i][0] + weights[i] * x, path[i][1] + weights[i] * y]),
  );
  const context = path.at(-1);
  const holds = inside(context, corners);
  const look = { at: context, color: plane.colors[holds ? 0 : 1] };
  const arrows = plane.arrows.map((arrow, i) =>
    i < corners.length
      ? { ...arrow, thick: 1 + 4 * Math.min(1, Math.abs(weights[i])) }
      : { ...arrow, ...look },
  );
  const dots = [{ ...plane.dots[0], ...look }];
  const [low, high] = free ? FREE : [0, 1];
  const title = `weights, sum ${figure(sumOf(weights))}`;
  const away = corners.map(([x, y]) => Math.hypot(x - context[0], y - context[1]));
  const near = away.indexOf(Math.min(...away));
  const listed = bars.names.map((word, i) => `${word} ${figure(weights[i])}`).join(", ");
  const text =
    `Weights ${listed}: the context is (${context.map(figure).join(", ")}), ${holds ? "inside" : "outside"} the hull ` +
    `of the values. The nearest value is that of “${bars.names[near]}”, ${figure(away[near])} away.`;
  const panels = [
    { ...bars, title, values: weights, low, high },
    { ...plane, arrows, dots, paths: [path] },
  ];
  return { values: { free, weights }, panels, text };
}
