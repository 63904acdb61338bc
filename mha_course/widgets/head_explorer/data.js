// What Python sent (maps.py), as numbers and words. Nothing here draws.

import { bytesOf, clamp } from "../dom.js";

/** Return which numbers have the first and the last colour: 0 and 1, 0 and the largest, or as far to both sides of 0. */
function limits(low, high) {
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  if (low < -1e-6 * Math.max(1, high)) return { low: -most, high: most };
  return { low: 0, high: high > 1.02 ? most : 1 }; // weights in half precision may be a little over 1
}

/**
 * Read all maps. A map is found by `{ layer, slot }`: its layer, or sentence, and its head, after which comes their average;
 * its matrix has `values` and `hidden`, row by row.
 */
export function readMaps(packet) {
  const [R, H, T, S] = packet.shape;
  const { slots } = packet;
  const size = T * S;
  const numbers = new Float32Array(bytesOf(packet.numbers).buffer);
  const hidden = packet.hidden && bytesOf(packet.hidden);
  const index = ({ layer, slot }) => layer * slots + slot;
  const part = (array, at) => array && array.subarray(index(at) * size, (index(at) + 1) * size);
  const facts = (at) => packet.facts[index(at)];
  const matrix = (at) => ({
    values: part(numbers, at),
    hidden: part(hidden, at),
    rows: T,
    columns: S,
  });
  const range = limits(packet.low, packet.high);
  const areWeights = range.low === 0 && range.high === 1;
  return { ...packet, R, H, T, S, ...range, areWeights, facts, matrix };
}

export const isHidden = ({ hidden }, i) => Boolean(hidden?.[i]);

/** Say whether a hidden cell holds a number nevertheless. */
export const leaks = (value) => Math.abs(value) > 1e-4 && value !== -Infinity;

export const shade = (value, { low, high }) =>
  clamp(Math.round(((value - low) / (high - low)) * 255), 0, 255);

/** Take a colour (alpha, blue, green, red) apart: red, green, blue. */
export const rgbOf = (colour) => [0, 8, 16].map((shift) => (colour >> shift) & 255);
