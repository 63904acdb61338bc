// What Python sent (maps.py), as numbers and words. Nothing here draws.

import { bytesOf } from "../dom.js";

/**
 * What is known of one map.
 * @typedef {object} Facts
 * @property {number | null} entropy the mean over rows, in nats, where each sums to 1
 * @property {[number, number] | null} sums the least and the largest sum of a row
 * @property {boolean} over_queries whether the columns sum to 1 instead
 * @property {number} nans
 * @property {number} leak the largest weight in a hidden cell
 */

/**
 * @typedef {object} ExplorerState
 * @property {[number, number, number, number]} shape R layers or sentences, H heads, T queries, S keys
 * @property {number} slots the maps of a layer: its heads and their average
 * @property {Facts[]} facts one a map
 * @property {string[]} rows what each layer is called
 * @property {[string[], string[]][]} tokens queries and keys of each layer
 * @property {[string[], string[]][] | null} words the same before repeated ones were numbered, where arcs can be drawn
 * @property {import("../matrix.js").Scale} scale of all maps
 * @property {BufferSource} numbers float32, or the weights of large maps as float16
 * @property {BufferSource | null} hidden a byte a cell
 * @property {string} source the line that says whose numbers they are
 * @property {number} serial
 */

/** Return the number that 16 bits stand for. */
function ofHalf(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
}

let ofHalves = null; // the numbers of all 16 bits, once they are needed

/** Return numbers as float32, of so many that may have come as float16. */
function readNumbers(bytes, count) {
  if (bytes.byteLength === 4 * count) return new Float32Array(bytes.buffer);
  ofHalves ??= Float32Array.from({ length: 2 ** 16 }, (_, bits) => ofHalf(bits));
  const halves = new Uint16Array(bytes.buffer);
  const numbers = new Float32Array(count);
  for (let i = 0; i < count; i += 1) numbers[i] = ofHalves[halves[i]];
  return numbers;
}

/**
 * Read all maps. A map is found by `{ layer, slot }`: its layer, or sentence, and its head, after which comes their average.
 * @param {ExplorerState} state
 */
export function readMaps(state) {
  const [R, H, T, S] = state.shape;
  const { slots, scale } = state;
  const size = T * S;
  const numbers = readNumbers(bytesOf(state.numbers), R * slots * size);
  const hidden = state.hidden && bytesOf(state.hidden);
  const index = ({ layer, slot }) => layer * slots + slot;
  const mapOf = (array, at) => array?.subarray(index(at) * size, (index(at) + 1) * size);
  const facts = (at) => state.facts[index(at)];
  const matrix = (at) => ({
    values: mapOf(numbers, at),
    hidden: mapOf(hidden, at),
    rows: T,
    columns: S,
  });
  const areWeights = scale.kind === "weights";
  return { ...state, ...scale, R, H, T, S, areWeights, facts, matrix };
}
