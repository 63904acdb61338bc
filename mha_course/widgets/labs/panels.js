// The kinds of panels. Here are lines.

import { make, svg } from "../dom.js";
import { bars, figure } from "./bars.js";
import { Matrix, widthsOfMatrix } from "./matrix.js";
import { arrows } from "./plane.js";
import { afresh, shares, table } from "./table.js";

// of lines: their height, and what they keep free
const HEIGHT = 184;
const LEFT = 44;
const RIGHT = 18;
const TOP = 8;
const BELOW = 36;

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
  const { at, x: numbers, lines: all, title, low, high, ticks } = panel;
  const place = panel.doublings ? Math.log2 : Number;
  const end = width - RIGHT;
  const bottom = HEIGHT - BELOW;
  const x = (i) => LEFT + (i / (numbers.length - 1)) * (end - LEFT);
  const y = (value) =>
    TOP + ((place(high) - place(value)) / (place(high) - place(low))) * (bottom - TOP);
  const entries = all.map((line) => entryOf(line, at));
  const root = svg("svg", { width, height: HEIGHT, class: "lines", role: "img" });
  root.ariaLabel = `${title}, at ${numbers[at]}: ${entries.join(", ")}`;
  for (const tick of ticks) {
    root.append(svg("path", { d: `M${LEFT} ${y(tick)}H${end}`, class: "rule" }));
    root.append(
      svg(
        "text",
        { x: LEFT - 6, y: y(tick) + 4, class: "tick end" },
        panel.doublings && tick < 1 ? `1/${1 / tick}` : `${tick}`,
      ),
    );
  }
  root.append(svg("path", { d: `M${x(at)} ${TOP}V${bottom}`, class: "here" }));
  const every = Math.ceil(numbers.length / 8);
  numbers.forEach((number, i) => {
    const className = i === at ? "tick at" : "tick";
    if (i % every === 0)
      root.append(svg("text", { x: x(i), y: bottom + 15, class: className }, `${number}`));
  });
  const below = { x: (LEFT + end) / 2, y: HEIGHT - 3, class: "tick" };
  root.append(svg("text", below, panel.xlabel));
  for (const line of all) root.append(...drawLine(line, at, x, y));
  const several = all.length > 1 ? all : []; // one has its name in the title
  const legend = several.map((line, i) => make("span", `entry ${line.style}`, entries[i]));
  return make("div", "", root, make("div", "legend", ...legend));
});

/** A picture that Python drew. */
const picture = afresh(({ html }) => Object.assign(make("div"), { innerHTML: html }));

/** How each kind is drawn, and how many pixels it needs and can use at most. */
export const KINDS = {
  bars: { draw: bars, widths: () => [230, 430] },
  matrix: { draw: (panel, tools) => new Matrix(panel, tools), widths: widthsOfMatrix },
  lines: { draw: lines, widths: () => [280, 560] },
  arrows: { draw: arrows, widths: ({ size }) => (size === "small" ? [132, 132] : [300, 420]) },
  shares: { draw: shares, widths: () => [380, 900] },
  table: { draw: table, widths: () => [270, 420] },
  picture: { draw: picture, widths: () => [300, 1100] },
};
