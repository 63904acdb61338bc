// What is written about maps: titles, a line for the cell that is pointed at, and notes on what is unusual.

import { apart, number } from "../dom.js";
import { isHidden, leaks } from "./data.js";

/** Name a map: head 3, or layer 1, head 3. */
export function nameOf(maps, { layer, slot }, brief = false) {
  const average = brief ? "average" : "average of heads";
  const head = slot < maps.H ? `head ${slot}` : average;
  return maps.L > 1 ? `layer ${layer}, ${head}` : head;
}

/** Name what is shown: a head, or the difference of two. */
export function titleOf(maps, { at, other, compared }) {
  return other ? `${nameOf(maps, at)} − ${nameOf(maps, compared)}` : nameOf(maps, at);
}

function cellText(maps, { row, column }, one) {
  const index = row * maps.S + column;
  const value = one.values[index];
  if (Number.isNaN(value)) return "NaN, not a number";
  if (!isHidden(one, index)) return number(value);
  if (value === -Infinity) return "hidden (−∞)";
  return leaks(value) ? `${number(value)}, though hidden by the mask` : "hidden by the mask";
}

function differenceText(maps, { row, column }, one, other) {
  const index = row * maps.S + column;
  const [a, b] = [one.values[index], other.values[index]];
  const second = b < 0 ? `(${number(b)})` : number(b);
  const hidden = isHidden(one, index) ? ", hidden" : "";
  return `${number(a)} − ${second} = ${number(a === b ? 0 : a - b, true)}${hidden}`;
}

function lineText(maps, item, { row, column }, one) {
  const along = row != null;
  const [queries, keys] = [maps.queries(item), maps.keys(item)];
  const names = along ? keys : queries;
  const place = (i) => (along ? row * maps.S + i : i * maps.S + column);
  const value = (i) => one.values[place(i)];
  const seen = [...names.keys()].filter((i) => !isHidden(one, place(i)) && Number.isFinite(value(i)));
  const largest = seen.sort((a, b) => value(b) - value(a)).slice(0, 3);
  const word = apart(along ? queries[row] : keys[column]);
  if (!largest.length) return along ? `${word} sees nothing: all keys are hidden` : `${word} is seen by nobody`;
  return `${word} ${along ? "looks at" : "is seen by"} ${largest.map((i) => `${apart(names[i])} ${number(value(i))}`).join(", ")}`;
}

/** Write what lies under the pointer: a cell with its words, or a row or column. */
export function readoutOf(maps, scene, lit) {
  const { one, other } = scene;
  const { item } = scene.at;
  const title = titleOf(maps, scene);
  if (lit.row == null || lit.column == null) return `${title}: ${lineText(maps, item, lit, one)}`;
  const pair = `${apart(maps.queries(item)[lit.row])} → ${apart(maps.keys(item)[lit.column])}`;
  return `${title}: ${pair} ${other ? differenceText(maps, lit, one, other) : cellText(maps, lit, one)}`;
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
  const weights = maps.kind === "weights";
  const notes = [];
  if (entropy === null && sums) notes.push({ warning: weights, text: sumsNote(facts) });
  if (nans) notes.push({ warning: true, text: `${nans} cell${nans > 1 ? "s are" : " is"} NaN, not a number` });
  if (leaks(leak) && weights) notes.push({ warning: true, text: `hidden cells hold weight, up to ${number(leak)}` });
  return notes;
}

/** Write what stands under a small picture: its entropy, or that its rows are no distribution. */
export function entropyText(maps, at) {
  const { entropy, sums } = maps.facts(at);
  if (entropy !== null) return `${number(entropy)}${maps.L > 1 ? "" : " nats"}`;
  return sums && maps.kind === "weights" ? "Σ ≠ 1" : "";
}
