// The kinds of panels, and how they share the room. Beside bars and matrices: lines, a plane with arrows, the rows of
// heads, a table of words. These are drawn anew each time.

import { make, setAttributes, svg, visible } from "../dom.js";
import { bars, figure, leastOfBars, wide, word } from "./bars.js";
import { leastOfMatrix, matrix } from "./matrix.js";
import { shares } from "./shares.js";

/** Return a panel whose picture is made from nothing whenever its numbers change: for the few nodes that it has. */
export const afresh = (draw) => (panel, tools) => {
  const node = make("div");
  const update = (now) => node.replaceChildren(draw(now, tools));
  update(panel);
  return { node, update };
};

const write = (attributes, words) => svg("text", attributes, words);

/** Return round numbers from low to high, about five of them. */
export function ticksOf(low, high) {
  const power = 10 ** Math.floor(Math.log10(high - low));
  const step = power * ([0.2, 0.5, 1, 2].find((n) => (high - low) / (n * power) <= 5) ?? 5);
  const [first, last] = [Math.ceil(low / step), Math.floor(high / step)];
  return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(3)));
}

/** Return the path through points; where one is missing, the line breaks off. */
export const pathOf = (points) =>
  points.map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point.join(" ")}` : "")).join("");

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
    root.append(svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "rule" }));
    root.append(write({ x: left - 6, y: y(tick) + 4, class: "tick end" }, `${tick}`));
  }
  root.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "here" }));
  const every = Math.ceil(numbers.length / 8);
  numbers.forEach((number, i) => {
    const look = `tick${i === at ? " at" : ""}`;
    if (i % every === 0) root.append(write({ x: x(i), y: height - bottom + 15, class: look }, `${number}`));
  });
  root.append(write({ x: (left + width - right) / 2, y: height - 3, class: "tick" }, panel.xlabel));
  for (const line of all) root.append(...drawLine(line, at, x, y));
  const legend = all.map((line, i) => make("span", `entry ${line.style}`, entries[i]));
  return make("div", "", root, make("div", "legend", ...legend));
});

/** Return the points at which one arrives on adding the values, each times its weight, one after the other. */
export function chainOf(points, weights) {
  let [x, y] = [0, 0];
  return points.map(([a, b], i) => [(x += weights[i] * a), (y += weights[i] * b)]);
}

/** Draw a value as an arrow, with its name beside the end. */
function drawValue(name, zero, end, strength, size) {
  const [dx, dy] = [end[0] - zero[0], end[1] - zero[1]];
  const half = wide([name]) / 2;
  const beside = end[0] + Math.sign(dx) * (Math.abs(dx) > 8 ? half + 2 : 0);
  const x = Math.max(half, Math.min(size - half, beside));
  const label = word(name, { x, y: end[1] + (dy > 0 ? 14 : -5), class: "label" });
  return [arrow(zero, end, "value", 1 + 4 * Math.min(1, strength)), label];
}

const plane = afresh((panel, { width }) => {
  const { names, points, weights, reach, inside, title } = panel;
  const size = Math.min(width, 360);
  const place = ([a, b]) => [((a / reach + 1) / 2) * size, ((1 - b / reach) / 2) * size];
  const [zero, context] = [place([0, 0]), place(panel.context)];
  const root = svg("svg", { width: size, height: size, class: "plane", role: "img" });
  root.setAttribute("aria-label", `${title}: the context is ${inside ? "inside" : "outside"} the hull`);
  root.append(svg("path", { d: `M0 ${size / 2}H${size}M${size / 2} 0V${size}`, class: "rule" }));
  root.append(svg("polygon", { points: points.map((point) => place(point).join()).join(" "), class: "hull" }));
  // Values added head to tail, each times its weight, end at the context.
  root.append(svg("path", { d: pathOf([zero, ...chainOf(points, weights).map(place)]), class: "chain" }));
  points.forEach((point, i) => root.append(...drawValue(names[i], zero, place(point), Math.abs(weights[i]), size)));
  const look = inside ? "" : "outside";
  root.append(arrow(zero, context, `context ${look}`, 3));
  root.append(svg("circle", { cx: context[0], cy: context[1], r: 7, class: `spot ${look}` }));
  root.append(write({ x: context[0] + 11, y: context[1] + 4, class: "label start strong" }, "context"));
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

const weightRows = afresh(({ width: count, heads, title }, { width, palettes }) => {
  const [size, each, top] = [Math.min(width - 120, 250), count / heads, 22];
  const cell = size / count;
  const root = svg("svg", { width: size + 116, height: size + 24, class: "weight-rows", role: "img" });
  root.setAttribute("aria-label", `${title}: ${heads} blocks of ${each}`);
  root.append(
    write({ x: size / 2, y: 14, class: "label" }, "W_Q, row by row"),
    write({ x: size + 41, y: 14, class: "label" }, "q"),
  );
  for (let row = 0; row < count; row++) {
    const fill = palettes.heads[Math.floor(row / each) % palettes.heads.length];
    const place = { y: top + row * cell, height: cell * 0.9, fill };
    root.append(
      svg("rect", { ...place, x: 0, width: size, opacity: 0.75 }),
      svg("rect", { ...place, x: size + 30, width: 22 }),
    );
  }
  for (let head = 0; head < heads; head++) {
    const [y, height] = [top + head * each * cell, each * cell];
    root.append(svg("rect", { x: size + 28, y: y - 0.5, width: 26, height, class: "frame" }));
    const readable = height >= 11;
    if (readable) root.append(write({ x: size + 60, y: y + height / 2 + 4, class: "label start" }, `head ${head}`));
  }
  return root;
});

function makeCell(tag, words, attributes) {
  const cell = make(tag, "", visible(words));
  setAttributes(cell, attributes);
  return cell;
}

const table = afresh(({ head, rows }) => {
  const titles = head.map((words) => makeCell("th", words, { scope: "col" }));
  const body = rows.map(([name, ...words]) => {
    const colspan = words.length === 1 ? head.length - 1 : 1;
    return make(
      "tr",
      "",
      makeCell("th", name, { scope: "row" }),
      ...words.map((word) => makeCell("td", word, { colspan })),
    );
  });
  return make("table", "", ...(head.some(Boolean) ? [make("tr", "", ...titles)] : []), ...body);
});

/**
 * How each kind is drawn, how many pixels it needs, and how many it can use; `least` are those without which the words
 * of a panel would be cut. Labs with a kind of their own add it.
 */
export const KINDS = {
  bars: { draw: bars, needs: 230, most: 430, least: leastOfBars },
  matrix: { draw: matrix, needs: 300, most: 640, least: leastOfMatrix },
  lines: { draw: lines, needs: 280, most: 560 },
  plane: { draw: plane, needs: 260, most: 380 },
  shares: { draw: shares, needs: 380, most: 900 },
  weight_rows: { draw: weightRows, needs: 300, most: 400 },
  table: { draw: table, needs: 270, most: 420 },
};
export const GAP = 22;
export const leastOf = (panel) => KINDS[panel.kind].least?.(panel) ?? 0;

/** Share out the room: as many panels beside each other as fit, each between what it needs and what it can use. */
export function pack(panels, room, least = () => 0) {
  const needs = new Map(panels.map((panel) => [panel, Math.max(KINDS[panel.kind].needs, least(panel))]));
  const sum = (row) => row.reduce((all, panel) => all + needs.get(panel), 0);
  const rows = [];
  for (const panel of panels) {
    const last = rows.at(-1);
    if (last && sum([...last, panel]) + GAP * last.length <= room) last.push(panel);
    else rows.push([panel]);
  }
  return rows.flatMap((row) => {
    const share = (room - GAP * (row.length - 1)) / sum(row);
    return row.map((panel) => {
      const [need, { most }] = [needs.get(panel), KINDS[panel.kind]];
      return Math.floor(Math.min(need * share, Math.max(need, most)));
    });
  });
}
