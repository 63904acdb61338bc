// Text about maps: titles, a line for the cell under the pointer, and notes on anything unusual.

import { isolateWord, number } from "../dom.js";
import { isHidden, leaks } from "../matrix.js";

/** Name a map: head 3, layer 1, head 3, or this head, where there is only one. */
export function nameOf(maps, { layer, slot }) {
  const several = slot < maps.H ? `head ${slot}` : "average of heads";
  const head = maps.H > 1 ? several : "this head";
  return maps.rows[layer] ? `${maps.rows[layer]}, ${head}` : head;
}

function cellText(maps, { row, column }, cells) {
  const index = row * maps.S + column;
  const value = cells.values[index];
  if (Number.isNaN(value)) return "NaN, not a number";
  if (!isHidden(cells, index)) return number(value);
  if (value === -Infinity) return "hidden (−∞)";
  return leaks(value) ? `${number(value)}, though hidden by the mask` : "hidden by the mask";
}

function lineText(maps, [queries, keys], { row, column }, cells) {
  const along = row != null;
  const names = along ? keys : queries;
  const place = (i) => (along ? row * maps.S + i : i * maps.S + column);
  const value = (i) => cells.values[place(i)];
  const visible = [...names.keys()].filter(
    (i) => !isHidden(cells, place(i)) && Number.isFinite(value(i)),
  );
  const [first, ...others] = visible.sort((a, b) => value(b) - value(a)).slice(0, 3);
  const largest = [first, ...others.filter((i) => !maps.areWeights || value(i) >= 0.005)];
  const word = `“${isolateWord(along ? queries[row] : keys[column])}”`;
  if (first === undefined)
    return along ? `${word} sees nothing: all keys are hidden` : `no query sees ${word}`;
  return `${word} ${along ? "looks at" : "is seen by"} ${largest.map((i) => `${isolateWord(names[i])} ${number(value(i))}`).join(", ")}`;
}

/** Write what is under the pointer: a cell with its words, or a row or column. */
export function readoutOf(maps, at, place) {
  const [tokens, cells] = [maps.tokens[at.layer], maps.matrix(at)];
  if (place.row == null || place.column == null)
    return `${nameOf(maps, at)}: ${lineText(maps, tokens, place, cells)}`;
  const pair = `${isolateWord(tokens[0][place.row])} → ${isolateWord(tokens[1][place.column])}`;
  return `${nameOf(maps, at)}: ${pair} ${cellText(maps, place, cells)}`;
}

function sumsNote({ sums: [least, most], over_queries: overQueries }) {
  const [low, high] = [number(least), number(most)];
  const even = low === "1.00" && high === "1.00";
  const why = overQueries ? "; the columns sum to 1, as after a softmax over the queries" : "";
  return `rows sum to ${low === high ? low : `${low} … ${high}`}${even ? ", with numbers below 0" : ", not 1"}${why}`;
}

/** Return what is unusual about a map, and whether it is a warning. */
export function notesOf(maps, at) {
  const facts = maps.facts(at);
  const { entropy, sums, nans, leak } = facts;
  const notes = [];
  const note = (warning, text) => notes.push({ warning, text });
  if (entropy === null && sums) note(maps.areWeights, sumsNote(facts));
  if (nans) note(true, `${nans} cell${nans > 1 ? "s are" : " is"} NaN, not a number`);
  if (leaks(leak) && maps.areWeights) note(true, `hidden cells hold weight, up to ${number(leak)}`);
  return notes;
}

/** Write the text under a small picture: its entropy, or that its rows are not distributions. */
export function entropyText(maps, at) {
  const { entropy, sums } = maps.facts(at);
  if (entropy !== null) return `${maps.R > 1 ? "" : "entropy "}${number(entropy)}`;
  return sums && maps.areWeights ? "Σ ≠ 1" : "";
}
