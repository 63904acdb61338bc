// Draws a tensor: the last two axes span a sheet of cells, earlier axes repeat it, alternately right and down.

/** @typedef {[string[], number[], string[][]]} Form The names of the axes, their sizes, and the colours of each. */

import { product, short, svg } from "../dom.js";

export const label = ([axes, sizes], i) =>
  axes[i] === `${sizes[i]}` ? axes[i] : `${short(axes[i], 14)} ${sizes[i]}`;
export const describe = (form) => form[0].map((_, i) => label(form, i)).join(", ") || "one number";

/** A length as it is perceived: it grows with every doubling. */
const side = (number) => Math.min(8 + 21 * Math.log2(Math.max(number, 1)), 200);

/** How many cells are drawn where there is no room for all. */
export const drawn = (number, length) => Math.min(number, Math.max(1, Math.floor(length / 3.5)));

/** Place the sheets; where an axis is long, its first copies and its last one stand for all. */
export function layout(sizes, scale) {
  const k = scale * [1.2, 1.2, 1.2, 1, 0.72, 0.5][Math.min(sizes.length, 5)];
  const sheet = [side(sizes.at(-1) ?? 1) * k, side(sizes.at(-2) ?? 1) * k];
  const [extent, runs, dots] = [[...sheet], [], []];
  let sheets = [{ x: 0, y: 0, index: [] }];
  for (let axis = sizes.length - 3, level = 0; axis >= 0; axis--, level++) {
    const number = sizes[axis];
    const direction = level % 2; // 0 to the right, 1 downwards
    const fits = sizes.length > 4 ? 3 : Math.max(3, Math.min(5, Math.floor((380 * k) / extent[0])));
    const most = [fits, 3][level] ?? 2;
    const all = number <= Math.max(most, level ? most : 4);
    const drawnCount = all ? number : most;
    const places = Array.from({ length: drawnCount }, (_, i) => {
      const at = i * (extent[direction] + 5 + 5 * level);
      return all || i < drawnCount - 1 ? { at, index: i } : { at: at + 14, index: number - 1 };
    });
    sheets = places.flatMap(({ at, index }) =>
      sheets.map(({ x, y, index: inner }) => {
        const place = direction ? { x, y: y + at } : { x: x + at, y };
        return { ...place, index: [index, ...inner] };
      }),
    );
    const length = drawnCount ? places.at(-1).at + extent[direction] : 0;
    const middle = length - extent[direction] - 9.5 - 2.5 * level;
    const [x, y] = direction ? [extent[0] / 2, middle] : [middle, extent[1] / 2];
    if (!all) dots.push({ x, y, sign: direction ? "⋮" : "…" });
    const parts = places.map(({ at }) => [at, extent[direction]]);
    runs.push({ axis, direction, level, parts, length });
    extent[direction] = length;
  }
  return { sheet, sheets, runs, dots, extent };
}

/** Say of each number which token it belongs to: by the tensor's own token axis, or by that of what was reshaped. */
export function tokens(form, before) {
  const [names, from, colours] = before ?? form;
  const axis = ["T", "S"].map((name) => names.indexOf(name)).find((place) => place >= 0);
  if (axis === undefined || !product(from)) return null;
  const inner = product(from.slice(axis + 1));
  const flat = (index) => index.reduce((sum, i, at) => sum * form[1][at] + i, 0);
  const own = before ? null : from.length - 1 - axis; // 0: a column is a token, 1: a row, more: a whole sheet
  const of = (index) => Math.floor(flat(index) / inner) % from[axis];
  return { colour: colours[axis][0], number: from[axis], own, of };
}

function shades({ sheet: [width, height], sheets }, sizes, { number, own, of }) {
  const [columns, rows] = [sizes.at(-1), sizes.at(-2) ?? 1];
  const across = own > 0 ? 1 : drawn(columns, width); // own is null after a reshape: look at every cell
  const down = own === 0 || own > 1 ? 1 : drawn(rows, height);
  const paths = new Map();
  for (const { x, y, index } of sheets) {
    for (let row = 0; row < down; row++) {
      const shade = (column) => {
        const place = [Math.floor((row * rows) / down), Math.floor((column * columns) / across)];
        const token = of([...index, ...(sizes.length > 1 ? place : place.slice(1))]);
        return Math.round((15 * token) / Math.max(number - 1, 1));
      };
      for (let column = 0, start = 0, now = shade(0); column < across; column++) {
        const then = column + 1 < across ? shade(column + 1) : null;
        if (then === now) continue; // the run goes on
        const [left, wide] = [(start * width) / across, ((column + 1 - start) * width) / across];
        const box = `M${x + left} ${y + (row * height) / down}h${wide}v${height / down}h${-wide}z`;
        paths.set(now, (paths.get(now) ?? "") + box);
        [start, now] = [column + 1, then];
      }
    }
  }
  return paths;
}

function grid({ sheet: [width, height], sheets }, columns, rows, every) {
  let [cells, cuts] = ["", ""];
  for (const { x, y } of sheets) {
    for (let i = 1, n = drawn(columns, width); i < n; i++)
      cells += `M${x + (i * width) / n} ${y}v${height}`;
    for (let i = 1, n = drawn(rows, height); i < n; i++)
      cells += `M${x} ${y + (i * height) / n}h${width}`;
    for (let at = every; at < columns; at += every)
      cuts += `M${x + (at * width) / columns} ${y}v${height}`;
  }
  return [cells, cuts];
}

/**
 * Where axis names go: the last two along the sheet, earlier ones along its copies. An edge begins at `from` and is
 * drawn in `parts`, each with its start and its length.
 */
function edgesOf({ sheet: [width, height], runs, extent: [across, down] }, count) {
  const edge = (run, line, text, anchor) => ({
    ...run,
    from: run.direction ? [line, 0] : [0, line],
    name: run.direction ? [text, run.length / 2 + 4] : [run.length / 2, text],
    anchor,
  });
  const outer = runs.map((run) => {
    const out = 4 + 26 * (run.level >> 1);
    if (run.direction) return edge(run, across + out, across + out + 11, "start");
    return edge(run, -out - 6, -out - 11, "middle");
  });
  const row = { axis: count - 1, direction: 0, parts: [[0, width]], length: width };
  const column = { axis: count - 2, direction: 1, parts: [[0, height]], length: height };
  const inner = [edge(row, down + 4, down + 24, "middle"), edge(column, -10, -14, "end")];
  return [...inner, ...outer].filter(({ axis }) => axis >= 0);
}

function drawEdge(picture, form, { axis, direction, from, parts, name, anchor }) {
  const [x, y] = from;
  const colours = form[2][axis];
  for (const [start, whole] of parts) {
    const length = whole / colours.length;
    colours.forEach((fill, i) => {
      const at = start + i * length;
      const place = direction ? { x, y: y + at } : { x: x + at, y };
      const size = direction ? { width: 6, height: length } : { width: length, height: 6 };
      picture.append(svg("rect", { ...place, ...size, fill, class: "bar" }));
    });
  }
  const attributes = { x: name[0], y: name[1], class: "name", "text-anchor": anchor };
  picture.append(svg("text", attributes, label(form, axis)));
}

/** Return the box around an edge and its name: left, top, right, bottom. */
function boxOf(form, { axis, from: [x, y], name: [left, up], anchor }) {
  const width = label(form, axis).length * 7.5 + 4;
  const start = left - { start: 0, middle: width / 2, end: width }[anchor];
  const [top, bottom] = [Math.min(up - 12, y), Math.max(up + 5, y + 7)];
  return [Math.min(start, x), top, Math.max(start + width, x + 6), bottom];
}

function drawSheets(picture, form, plan, { storage, before, every = Infinity }) {
  const { sheets, dots } = plan;
  const [width, height] = plan.sheet;
  const sizes = form[1];
  const outline = sheets.map(({ x, y }) => `M${x} ${y}h${width}v${height}h${-width}z`).join("");
  const [cells, cuts] = grid(plan, sizes.at(-1) ?? 1, sizes.at(-2) ?? 1, every);
  const owners = product(sizes) ? tokens(form, before) : null;
  const draw = (attributes) => picture.append(svg("path", attributes));
  draw({ d: outline, class: "paper" });
  for (const [shade, d] of owners ? shades(plan, sizes, owners) : [])
    draw({ d, fill: owners.colour, "fill-opacity": 0.1 + 0.05 * shade });
  draw({ d: cells, class: "cells" });
  draw({ d: cuts, class: "cuts" });
  draw({ d: outline, class: `edge ${storage}` });
  for (const { x, y, sign } of dots)
    picture.append(svg("text", { x, y: y + 4, class: "dots" }, sign));
}

/** Return an svg. `before`: what it was reshaped from. `every`: the width at which a reshape cuts or glues its rows. */
export function tensor(form, { scale, ...options }) {
  const plan = layout(form[1], scale);
  const [across, down] = plan.extent;
  const edges = edgesOf(plan, form[1].length);
  const boxes = [[-2, -2, across + 2, down + 2], ...edges.map((edge) => boxOf(form, edge))];
  const [left, top] = [0, 1].map((side) => Math.min(...boxes.map((box) => box[side])) - 1);
  const [right, bottom] = [2, 3].map((side) => Math.max(...boxes.map((box) => box[side])) + 1);
  const [width, height] = [right - left, bottom - top];
  const viewBox = `${left} ${top} ${width} ${height}`;
  const picture = svg("svg", { "aria-hidden": "true", viewBox, width, height });
  drawSheets(picture, form, plan, options);
  for (const edge of edges) drawEdge(picture, form, edge);
  return picture;
}
