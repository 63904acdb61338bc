// Gathers what the large picture shows, and draws it as a whole: on the screen, and once more for a file.

import { clamp } from "../dom.js";
import { difference, limits, limitsOfDifference } from "./data.js";
import { arrange, makeCanvas, paintCells, paintGaps, paintLegend, paintNumbers, paintWords } from "./draw.js";

const TALLEST = 512; // pixels of the matrix, with which it is still seen as a whole

/** Read colours and fonts from where the widget stands, so that it follows the theme. */
export function lookOf(root) {
  const { color: ink, backgroundColor: paper, fontFamily } = getComputedStyle(root);
  const pale = (colour, share) => `color-mix(in srgb, ${colour} ${share}%, transparent)`;
  return {
    ink,
    paper,
    hatch: pale(ink, 45),
    veil: pale(paper, 58),
    accent: "#d9480f",
    font: `12px ${fontFamily}`,
    small: `11px ${fontFamily}`,
    dots: Math.min(3, (window.devicePixelRatio || 1) * (root.currentCSSZoom ?? 1)),
  };
}

export const coloursFor = (palettes, range) => ({
  ...range,
  palette: range.low < 0 ? palettes.signed : palettes.plain,
});

/** Gather cells, colours and sizes of a head, or of the difference of two. */
export function compose(maps, palettes, { at, compared, scale }, look, width) {
  const one = maps.matrix(at);
  const other = compared && maps.matrix(compared);
  const cells = other ? difference(one, other) : one;
  const range = other ? limitsOfDifference(maps, cells, scale) : limits(maps, at, scale);
  const space = { width, height: clamp(width, 240, TALLEST) };
  const plan = arrange(makeCanvas(1, 1).getContext("2d"), maps, at.item, space, look);
  const marks = [];
  if (cells.hidden?.includes(1)) marks.push({ word: "hidden", values: [0], hidden: [1] });
  if (cells.values.some(Number.isNaN)) marks.push({ word: "NaN", values: [NaN] });
  return { at, compared, one, other, cells, plan, colours: coloursFor(palettes, range), marks, look };
}

export function paintScene(context, maps, { at, cells, plan, colours, marks, look }) {
  paintCells(context, cells, colours, plan.box, look);
  paintGaps(context, plan, look);
  paintNumbers(context, cells, plan, colours, look);
  paintWords(context, maps, at.item, plan, look);
  paintLegend(context, plan, colours, marks, look);
}

/** Light a row, a column, or the cell where they cross: all else lies under a veil. */
export function paintLit(context, maps, { at, plan, look }, lit) {
  const { box, cell } = plan;
  const [w, h] = [Math.max(cell.w, 3), Math.max(cell.h, 3)];
  const row = lit.row == null ? null : { ...box, y: box.y + (lit.row + 0.5) * cell.h - h / 2, h };
  const column = lit.column == null ? null : { ...box, x: box.x + (lit.column + 0.5) * cell.w - w / 2, w };
  const both = row && column && { ...row, x: column.x, w };
  context.save();
  context.beginPath();
  for (const one of [box, row, column, both]) if (one) context.rect(one.x, one.y, one.w, one.h);
  context.fillStyle = look.veil;
  context.fill("evenodd");
  context.restore();
  const frame = both ?? row ?? column;
  const strokeFrame = (width, colour) => {
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.strokeRect(frame.x, frame.y, frame.w, frame.h);
  };
  strokeFrame(4, look.paper);
  strokeFrame(2, look.accent);
  paintWords(context, maps, at.item, plan, look, lit);
}

function widthOf(text, font) {
  const context = makeCanvas(1, 1).getContext("2d");
  context.font = font;
  return context.measureText(text).width;
}

/** Draw the picture at twice its size on a canvas of its own, with its title. */
export function pictureOf(maps, scene, title, lit) {
  const { plan, look } = scene;
  const bold = `bold ${look.font}`;
  const width = Math.max(plan.width, widthOf(title, bold) + 20);
  const canvas = makeCanvas(width * 2, (plan.height + 30) * 2);
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = look.paper;
  context.fillRect(0, 0, width, plan.height + 30);
  context.fillStyle = look.ink;
  context.font = bold;
  context.textBaseline = "middle";
  context.fillText(title, 10, 18);
  context.translate(0, 30);
  const fine = { ...scene, look: { ...look, dots: 2 } };
  paintScene(context, maps, fine);
  if (lit) paintLit(context, maps, fine, lit);
  return canvas;
}
