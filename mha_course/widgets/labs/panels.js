// Panels that are drawn anew each time: lines, a plane with arrows, blocks of rows, a table of words.

import { make, svg } from "../dom.js";
import { bars, figure, wide, word } from "./bars.js";
import { matrix } from "./matrix.js";

/** Return a panel whose picture is made from nothing whenever its numbers change: for the few nodes that it has. */
export const afresh = (draw) => (panel, tools) => {
  const node = make("div", "");
  const update = (now) => node.replaceChildren(draw(now, tools));
  update(panel);
  return { node, update };
};

const text = (attributes, words) => svg("text", attributes, words);

const lines = afresh((panel, { width }) => {
  const [left, bottom, top, height] = [44, 36, 8, 216];
  const right = 18;
  const all = panel.lines.flatMap((line) => line.values).filter((value) => value !== null);
  const most = Math.max(...all, 1e-9) * 1.05;
  const x = (i) => left + (i / (panel.x.length - 1)) * (width - left - right);
  const y = (value) => top + (1 - value / most) * (height - top - bottom);
  const told = panel.lines.map((line) => `${line.name} ${figure(line.values[panel.at])}`).join(", ");
  const root = svg("svg", { width, height, class: "lines", role: "img", "aria-label": `${panel.title}, at ${panel.x[panel.at]}: ${told}` });
  const power = 10 ** Math.floor(Math.log10(most));
  const step = power * ([0.2, 0.5, 1, 2].find((n) => most / (n * power) <= 5) ?? 5);
  for (let tick = 0; tick <= most; tick += step) {
    root.append(svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "rule" }));
    root.append(text({ x: left - 6, y: y(tick) + 4, class: "tick end" }, Number(tick.toPrecision(3)).toString()));
  }
  root.append(svg("line", { x1: x(panel.at), x2: x(panel.at), y1: top, y2: height - bottom, class: "here" }));
  panel.x.forEach((number, i) => root.append(text({ x: x(i), y: height - bottom + 15, class: `tick${i === panel.at ? " at" : ""}` }, `${number}`)));
  root.append(text({ x: (left + width - right) / 2, y: height - 3, class: "tick" }, panel.xlabel));
  for (const line of panel.lines) {
    const points = line.values.map((value, i) => (value === null ? null : `${x(i)} ${y(value)}`));
    const d = points.map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point}` : "")).join("");
    root.append(svg("path", { d, class: `curve ${line.style}` }));
    const value = line.values[panel.at];
    if (value === null) continue;
    root.append(svg("circle", { cx: x(panel.at), cy: y(value), r: 4, class: `dot ${line.style}` }));
  }
  const legend = make("div", "legend", ...panel.lines.map((line) => make("span", `entry ${line.style}`, `${line.name} ${figure(line.values[panel.at])}`)));
  return make("div", "", root, legend);
});

const plane = afresh((panel, { width }) => {
  const size = Math.min(width, 360);
  const place = ([a, b]) => [((a / panel.reach + 1) / 2) * size, ((1 - b / panel.reach) / 2) * size];
  const told = `${panel.title}: the context is ${panel.inside ? "inside" : "outside"} the hull`;
  const root = svg("svg", { width: size, height: size, class: "plane", role: "img", "aria-label": told });
  root.append(svg("path", { d: `M0 ${size / 2}H${size}M${size / 2} 0V${size}`, class: "rule" }));
  root.append(svg("polygon", { points: panel.hull.map((point) => place(point).join()).join(" "), class: "hull" }));
  const [zero, context] = [place([0, 0]), place(panel.context)];
  // Values added head to tail, each times its weight, end at the context.
  let [sum, way] = [[0, 0], `M${zero.join(" ")}`];
  panel.points.forEach((point, i) => {
    sum = [sum[0] + panel.weights[i] * point[0], sum[1] + panel.weights[i] * point[1]];
    way += `L${place(sum).join(" ")}`;
  });
  root.append(svg("path", { d: way, class: "chain" }));
  panel.points.forEach((point, i) => {
    const [end, strength] = [place(point), Math.abs(panel.weights[i])];
    root.append(arrow(zero, end, "value", 1 + 4 * Math.min(1, strength)));
    const [dx, dy] = [end[0] - zero[0], end[1] - zero[1]];
    const half = wide([panel.names[i]]) / 2;
    const x = Math.max(half, Math.min(size - half, end[0] + Math.sign(dx) * (Math.abs(dx) > 8 ? half + 2 : 0)));
    root.append(word(panel.names[i], { x, y: end[1] + (dy > 0 ? 14 : -5), class: "label" }));
  });
  root.append(arrow(zero, context, `context ${panel.inside ? "" : "outside"}`, 3));
  root.append(svg("circle", { cx: context[0], cy: context[1], r: 7, class: `spot ${panel.inside ? "" : "outside"}` }));
  root.append(text({ x: context[0] + 11, y: context[1] + 4, class: "label start strong" }, "context"));
  return root;
});

/** Draw a line with a head. */
export function arrow([x, y], [toX, toY], name, thick) {
  const length = Math.hypot(toX - x, toY - y);
  const [a, b] = length ? [(toX - x) / length, (toY - y) / length] : [0, 0];
  const [head, half] = [Math.min(9 + thick, length), 3 + thick];
  const [bx, by] = [toX - a * head, toY - b * head];
  const tip = `M${toX} ${toY}L${bx - b * half} ${by + a * half}L${bx + b * half} ${by - a * half}Z`;
  const line = svg("path", { d: `M${x} ${y}L${bx} ${by}`, "stroke-width": thick, class: "shaft" });
  return svg("g", { class: `arrow ${name}` }, line, svg("path", { d: tip, class: "tip" }));
}

const blocks = afresh((panel, { width, palettes }) => {
  const { width: count, heads } = panel;
  const [size, deep] = [Math.min(width - 120, 250), count / heads];
  const cell = size / count;
  const root = svg("svg", { width: size + 116, height: size + 24, class: "blocks", role: "img", "aria-label": `${panel.title}: ${heads} blocks of ${deep}` });
  root.append(text({ x: size / 2, y: 14, class: "label" }, "W_Q, row by row"), text({ x: size + 41, y: 14, class: "label" }, "q"));
  for (let row = 0; row < count; row++) {
    const colour = palettes.heads[Math.floor(row / deep) % palettes.heads.length];
    const y = 22 + row * cell;
    root.append(svg("rect", { x: 0, y, width: size, height: cell * 0.9, fill: colour, opacity: 0.75 }));
    root.append(svg("rect", { x: size + 30, y, width: 22, height: cell * 0.9, fill: colour }));
  }
  for (let head = 0; head < heads; head++) {
    const [y, tall] = [22 + head * deep * cell, deep * cell];
    root.append(svg("rect", { x: size + 28, y: y - 0.5, width: 26, height: tall, class: "frame" }));
    if (tall >= 11) root.append(text({ x: size + 60, y: y + tall / 2 + 4, class: "label start" }, `head ${head}`));
  }
  return root;
});

const table = afresh((panel) => {
  const cell = (tag, words, more = {}) => Object.assign(make(tag, ""), { textContent: words, ...more });
  const head = panel.head.some(Boolean) ? [make("tr", "", ...panel.head.map((words) => cell("th", words, { scope: "col" })))] : [];
  const rows = panel.rows.map(([name, ...numbers]) => {
    const span = panel.head.length - numbers.length;
    return make("tr", "", cell("th", name, { scope: "row" }), ...numbers.map((words) => cell("td", words, { colSpan: numbers.length === 1 ? span : 1 })));
  });
  return make("table", "", ...head, ...rows);
});

export const KINDS = { bars, matrix, lines, plane, blocks, table };
export const NEEDS = { bars: 230, matrix: 300, lines: 280, plane: 260, blocks: 300, table: 270 }; // pixels
export const MOST = { bars: 430, matrix: 640, lines: 560, plane: 380, blocks: 400, table: 420 };
export const GAP = 22;

/** Share out the room: as many panels beside each other as fit, each between what it needs and what it can use. */
export function pack(panels, room) {
  const rows = [];
  for (const panel of panels) {
    const last = rows.at(-1);
    const taken = last ? last.reduce((sum, one) => sum + NEEDS[one.kind] + GAP, 0) : 0;
    if (last && taken + NEEDS[panel.kind] <= room) last.push(panel);
    else rows.push([panel]);
  }
  return rows.flatMap((row) => {
    const needs = row.reduce((sum, one) => sum + NEEDS[one.kind], 0);
    const share = (room - GAP * (row.length - 1)) / needs;
    return row.map((one) => Math.floor(Math.min(NEEDS[one.kind] * share, MOST[one.kind])));
  });
}
