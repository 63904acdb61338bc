// What Python sent (maps.py), as numbers and words. Nothing here draws.

import { bytesOf, clamp } from "../dom.js";

/** Say which colours the numbers need: 0 to 1, 0 to the largest, or both sides of 0. */
function kindOf({ low, high }) {
  if (low < -1e-6 * Math.max(1, high)) return "signed";
  return high > 1.02 ? "numbers" : "weights"; // weights in half precision may be a little over 1
}

/**
 * Read all maps. A map is found by `{ layer, item, slot }`, where the slot after the last head is their average; its
 * matrix has `values` and `hidden`, row by row.
 */
export function readMaps(packet) {
  const [L, B, H, T, S] = packet.shape;
  const { slots } = packet;
  const size = T * S;
  const numbers = new Float32Array(bytesOf(packet.numbers).buffer);
  const hidden = packet.hidden && bytesOf(packet.hidden);
  const index = ({ layer, item, slot }) => (layer * B + item) * slots + slot;
  const part = (array, at) => array && array.subarray(index(at) * size, (index(at) + 1) * size);
  return {
    ...packet,
    L,
    B,
    H,
    T,
    S,
    kind: kindOf(packet),
    index,
    facts: (at) => packet.facts[index(at)],
    matrix: (at) => ({ values: part(numbers, at), hidden: part(hidden, at), rows: T, columns: S }),
    queries: (item) => packet.queries[item],
    keys: (item) => packet.keys[item],
  };
}

export const isHidden = ({ hidden }, i) => Boolean(hidden?.[i]);

/** Say whether a hidden cell holds a number nevertheless. */
export const leaks = (value) => Math.abs(value) > 1e-4 && value !== -Infinity;

/** Subtract one matrix from another; what one of them hides is hidden. */
export function difference(a, b) {
  const hidden = Uint8Array.from(a.values, (_, i) => Number(isHidden(a, i) || isHidden(b, i)));
  const values = a.values.map((value, i) => {
    if (value === b.values[i]) return 0; // infinity minus infinity as well
    const gap = value - b.values[i];
    return hidden[i] && !Number.isNaN(gap) ? 0 : gap;
  });
  return { ...a, values, hidden };
}

/** Return which numbers have the first and the last colour. */
export function limits(maps, at, scale) {
  const { low, high } = scale === "head" ? maps.facts(at) : maps;
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  if (maps.kind === "signed") return { low: -most, high: most };
  return { low: 0, high: scale === "head" || maps.kind === "numbers" ? most : 1 };
}

export function limitsOfDifference(maps, { values }, scale) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value) || 0), 0) || 1;
  const most = scale === "fixed" && maps.kind === "weights" ? 1 : largest;
  return { low: -most, high: most };
}

/** Return limits with the palette that goes with them. */
export const coloursOf = ({ plain, signed }, range) => ({ ...range, palette: range.low < 0 ? signed : plain });

export const shade = (value, { low, high }) => clamp(Math.round(((value - low) / (high - low)) * 255), 0, 255);

/** Return black or white, whichever is read better on a colour (alpha, blue, green, red): at least 4.5 to 1. */
export function inkOn(colour) {
  const parts = [0, 8, 16].map((shift) => ((colour >> shift) & 255) / 255);
  const [red, green, blue] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue; // WCAG's relative luminance
  return light < 0.179 ? "#fff" : "#000";
}
