// What Python sent (maps.py), as numbers and words. Nothing here draws.

import { bytesOf } from "../dom.js";

const THUMBNAIL = 128; // cells of a small picture's longer side: more could not be seen

/**
 * Facts about one map.
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
 * @property {{ layer: number, slot: number } | null} only the one map whose facts and numbers came, ahead of the rest
 * @property {Facts[]} facts one a map
 * @property {string[]} rows what each layer is called
 * @property {[string[], string[]][]} tokens queries and keys of each layer
 * @property {[string[], string[]][] | null} words the same before repeated ones were numbered, where arcs can be drawn
 * @property {import("../matrix.js").Scale} scale of all maps
 * @property {BufferSource} numbers float32
 * @property {BufferSource | null} hidden a byte a cell
 * @property {string} source the line that says whose numbers they are
 * @property {number} serial
 */

/**
 * Read all maps. A map is found by `{ layer, slot }`: its layer, or sentence, and its head, after which comes their average.
 * @param {ExplorerState} state
 */
export function readMaps(state) {
  const [R, H, T, S] = state.shape;
  const { slots, scale, only } = state;
  const numbers = new Float32Array(bytesOf(state.numbers).buffer);
  const hidden = state.hidden && bytesOf(state.hidden);
  const has = ({ layer, slot }) => !only || (layer === only.layer && slot === only.slot);
  const index = ({ layer, slot }) => (only ? 0 : layer * slots + slot);
  const facts = (at) => state.facts[index(at)];

  function matrix(at) {
    const start = index(at) * T * S;
    const mapOf = (cells) => cells?.subarray(start, start + T * S);
    return { rows: T, columns: S, values: mapOf(numbers), hidden: mapOf(hidden) };
  }
  /** Return a map; of a large one, only some rows and columns. */
  function thumbnail(at) {
    const step = Math.ceil(Math.max(T, S) / THUMBNAIL);
    if (step === 1) return matrix(at);
    const [rows, columns] = [Math.ceil(T / step), Math.ceil(S / step)];
    const place = (i) => (Math.floor(i / columns) * S + (i % columns)) * step;
    const { values, hidden: covered } = matrix(at);
    const length = rows * columns;
    const some = (cells) => cells && Float32Array.from({ length }, (_, i) => cells[place(i)]);
    return { rows, columns, values: some(values), hidden: some(covered) };
  }
  const areWeights = scale.kind === "weights";
  return { ...state, ...scale, R, H, T, S, areWeights, has, facts, matrix, thumbnail };
}
