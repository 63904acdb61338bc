// The lab of lesson 10. Without a kernel, the page computes what lab.py does with the course's rope.

import { inView } from "../../widgets/in_view.js";
import { figure } from "../../widgets/labs/bars.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { KINDS } from "../../widgets/labs/panels.js";
import { valuesAfter } from "../../widgets/without_kernel.js";

const BASES = [100, 10_000, 500_000]; // as in lab.py
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
const products = (q, k) => q.map(([x, y], i) => x * k[i][0] + y * k[i][1]);

/** Rotate each pair by its own angle. */
function rotated(pairs, position, speeds) {
  return pairs.map(([x, y], i) => {
    const [cos, sin] = [Math.cos(position * speeds[i]), Math.sin(position * speeds[i])];
    return [x * cos - y * sin, x * sin + y * cos];
  });
}

/** Return the state after a move. */
function compute(moved, { panels, values: before }) {
  const values = valuesAfter(moved, before);
  const { position, distance } = values;
  const dials = panels.slice(0, -2);
  const [bars, lines] = panels.slice(-2);
  const [query, key] = [0, 1].map((n) => dials.map(({ paths }) => paths[n][1]));
  const speeds = dials.map((_, i) => BASES[values.base] ** (-i / dials.length));
  const at = (distance, position) => {
    return products(rotated(query, position + distance, speeds), rotated(key, position, speeds));
  };
  const pairs = at(distance, position);
  const [dot, start] = [sumOf(pairs), sumOf(at(distance, 0))];
  const tips = [rotated(key, position, speeds), rotated(query, position + distance, speeds)];
  const rotate = (dial, i) => {
    const arrows = dial.arrows.map((arrow, n) => ({ ...arrow, at: tips[n][i] }));
    return { ...dial, arrows, note: `${Number(speeds[i].toPrecision(2))} rad a token` };
  };
  const waves = lines.x.map((far) => sumOf(at(far, 0)));
  const title = `what each pair adds; sum ${figure(dot)}`;
  const alike = Math.abs(start - dot) <= 1e-6 ? "the same as" : "not the same as";
  const text =
    `Key at position ${position}, query at ${position + distance}: q · k = ${figure(dot)}, ${alike} ` +
    `at positions 0 and ${distance}, where it is ${figure(start)}.`;
  const line = { ...lines.lines[0], values: waves };
  const drawn = [
    ...dials.map(rotate),
    { ...bars, title, values: pairs },
    { ...lines, lines: [line], at: distance },
  ];
  return { values, panels: drawn, text };
}

const render = (context) => renderLab(context, KINDS, { compute });

export default { render: inView(render) };
