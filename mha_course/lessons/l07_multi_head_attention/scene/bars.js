// How a number is computed, as bars below the matrices.

import { number, svg } from "../../../widgets/dom.js";
import { rgbOf, shade } from "../../../widgets/matrix.js";
import { line, rect } from "./shapes.js";

const WIDE = 20; // a bar
const [STEP, STEP_WITH_WORDS, FEW] = [44, 62, 9]; // from bar to bar; few have words below
const LEAST_ROOM = 300; // if there is less, only the readout says it

/** Write a colour (alpha, blue, green, red) as style sheets do. */
export const cssOf = (colour) => `rgb(${rgbOf(colour).join(" ")} / ${(colour >>> 24) / 255})`;

/** Return the positions of these parts' bars, and y of 0; from lowest to highest they are `tall`. */
export function barsOf(parts, { left, room, top, tall }) {
  const values = parts.map(({ value }) => value);
  const [high, low] = [Math.max(0, ...values), Math.min(0, ...values)];
  const unit = tall / (high - low || 1);
  const base = top + 21 + high * unit;
  const step = parts.length > FEW ? Math.min(STEP, room / parts.length) : STEP_WITH_WORDS;
  const bars = parts.map((part, i) => ({
    ...part,
    x: left + i * step,
    y: part.value < 0 ? base : base - part.value * unit,
    w: WIDE,
    h: Math.abs(part.value) * unit,
  }));
  return { bars, base, below: base - low * unit + 14, most: Math.max(high, -low) || 1 };
}

/** Draw the bars of a number, if there is one, with a heading; small numbers are left out where they would touch. */
export function insideParts(inside, brush, place) {
  if (!inside || place.room < LEAST_ROOM) return [];
  const { title, parts, total, note } = inside;
  const text = (words, x, y, look = "ink center") => svg("text", { class: look, x, y }, words);
  const heading = text(title, place.left, place.top, "ink bold large left");
  heading.append(svg("tspan", { class: "plain", dx: 8 }, `= ${number(total)}`));
  heading.append(svg("tspan", { class: "muted small plain", dx: 24 }, note));
  if (!parts.length) return [heading];
  const { bars, base, below, most } = barsOf(parts, place);
  const colours = brush.signed(most);
  const least = place.room < parts.length * STEP ? most / 20 : 0;
  const nodes = bars.flatMap(({ name, value, ...box }) => [
    rect("zero", box),
    rect("", box, { style: `fill: ${cssOf(shade(value, colours))}` }),
    text(Math.abs(value) < least ? "" : number(value), box.x + WIDE / 2, Math.min(box.y, base) - 4),
    text(name, box.x + WIDE / 2, below, "muted center"),
  ]);
  const floor = `M${place.left - 4} ${base}H${bars.at(-1).x + WIDE + 4}`;
  return [heading, ...nodes, line(floor, 1, "line")];
}
