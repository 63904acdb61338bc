// The kinds of panels. Here are lines.

import { make, svg } from "../dom.js";
import { bars, figure } from "./bars.js";
import { matrix, roomOfMatrix } from "./matrix.js";
import { arrows } from "./plane.js";
import { afresh, shares, table } from "./table.js";

const write = (attributes, words) => svg("text", attributes, words);

/** Return round numbers from low to high, about five of them. */
export function ticksOf(low, high) {
  const power = 10 ** Math.floor(Math.log10(high - low));
  const step = power * ([0.2, 0.5, 1, 2].find((n) => (high - low) / (n * power) <= 5) ?? 5);
  const [first, last] = [Math.ceil(low / step), Math.floor(high / step)];
  return Array.from({ length: last - first + 1 }, (_, n) =>
    Number(((first + n) * step).toPrecision(3)),
  );
}

/** Return the path through points; where one is missing, the line breaks off. */
export const pathOf = (points) =>
  points
    .map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point.join(" ")}` : ""))
    .join("");

const entryOf = (line, at) => `${line.name} ${figure(line.values[at])}`;

/** Draw one line, with a dot where it is marked. */
function drawLine({ values, style }, at, x, y) {
  const points = values.map((value, i) => (value === null ? null : [x(i), y(value)]));
  const curve = svg("path", { d: pathOf(points), class: `curve ${style}` });
  if (values[at] === null) return [curve];
  return [curve, svg("circle", { cx: x(at), cy: y(values[at]), r: 4, class: `dot ${style}` })];
}

const lines = afresh((panel, { width }) => {
  const { at, x: numbers, lines: all, title } = panel;
  const [left, right, top, height, bottom] = [44, 18, 8, 216, 36];
  const values = all.flatMap((line) => line.values).filter((value) => value !== null);
  const [low, high] = [Math.min(...values, 0), Math.max(...values, 1e-9)].map((end) => end * 1.05);
  const x = (i) => left + (i / (numbers.length - 1)) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const entries = all.map((line) => entryOf(line, at));
  const root = svg("svg", { width, height, class: "lines", role: "img" });
  root.setAttribute("aria-label", `${title}, at ${numbers[at]}: ${entries.join(", ")}`);
  for (const tick of ticksOf(low, high)) {
    root.append(
      svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "rule" }),
    );
    root.append(write({ x: left - 6, y: y(tick) + 4, class: "tick end" }, `${tick}`));
  }
  root.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "here" }));
  const every = Math.ceil(numbers.length / 8);
  numbers.forEach((number, i) => {
    const look = `tick${i === at ? " at" : ""}`;
    if (i % every === 0)
      root.append(write({ x: x(i), y: height - bottom + 15, class: look }, `${number}`));
  });
  root.append(write({ x: (left + width - right) / 2, y: height - 3, class: "tick" }, panel.xlabel));
  for (const line of all) root.append(...drawLine(line, at, x, y));
  const legend = all.map((line, i) => make("span", `entry ${line.style}`, entries[i]));
  return make("div", "", root, make("div", "legend", ...legend));
});

/** A picture that Python drew. */
function picture(panel) {
  const node = make("div");
  const update = ({ html }) => (node.innerHTML = html);
  update(panel);
  return { node, update };
}

/** How each kind is drawn, and how many pixels it needs and can use at most. */
export const KINDS = {
  bars: { draw: bars, room: () => [230, 430] },
  matrix: { draw: matrix, room: roomOfMatrix },
  lines: { draw: lines, room: () => [280, 560] },
  arrows: { draw: arrows, room: ({ size }) => (size === "small" ? [140, 140] : [300, 420]) },
  shares: { draw: shares, room: () => [380, 900] },
  table: { draw: table, room: () => [270, 420] },
  picture: { draw: picture, room: () => [300, 1100] },
};
