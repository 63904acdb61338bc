// The numbers Python sent, and how each one is computed. Nothing here draws.

import { isolateWord, bytesOf, number } from "../../../widgets/dom.js";
import { indices } from "./layout.js";

const [FEW, MOST] = [9, 16]; // parts of a number that are shown one by one: with words, and without

/**
 * @typedef {object} SceneState All stages of one pass.
 * @property {number} H
 * @property {number} S
 * @property {number} D
 * @property {string[]} tokens
 * @property {string[]} words The same before repeated ones were numbered.
 * @property {object} plan The layout, from plan.py.
 * @property {boolean} masked Whether a mask hides anything.
 * @property {string} source The line that says whose numbers they are.
 * @property {string[]} yours The stages that the learner's function computed.
 * @property {Object<string, DataView>} arrays float32, by the name of the stage.
 */

/** Read all arrays; each is found by `value(name, head, row, column)`. */
export function readSteps(state) {
  const { S, H, D, tokens } = state;
  const C = H * D;
  const [arrays, most] = [{}, {}];
  for (const [name, bytes] of Object.entries(state.arrays)) {
    arrays[name] = new Float32Array(bytesOf(bytes).buffer);
    most[name] = Math.max(...arrays[name].map(Math.abs).filter(Number.isFinite), 0) || 1;
  }
  const widths = { x: C, out: C, parts: C, scores: S, masked_scores: S, weights: S };
  const widthOf = (name) => widths[name] ?? D; // of a row of one head's part
  const value = (name, head, row, column) => {
    if (name === "merged") return arrays.merged[row * C + head * D + column]; // the part of a head
    const first = name === "x" || name === "out" ? 0 : head * S;
    return arrays[name][(first + row) * widthOf(name) + column];
  };
  const hidden = (head, row, column) => value("masked_scores", head, row, column) === -Infinity;
  const word = (i) => isolateWord(tokens[i], 12);
  return { ...state, C, arrays, widthOf, value, most, hidden, word };
}

/** Keep the largest parts, and sum up the others. */
function largest(parts, most = FEW) {
  const sorted = [...parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  if (sorted.length <= most) return sorted;
  const tail = sorted.slice(most - 1).reduce((sum, { value }) => sum + value, 0);
  return [...sorted.slice(0, most - 1), { name: `${sorted.length - most + 1} more`, value: tail }];
}

const signed = (value) => (value < 0 ? `− ${number(-value)}` : `+ ${number(value)}`);

// Each returns a title and all of it as text; if known, also the parts and a note next to them.

function insideScore(steps, { head, row, column }, total) {
  const { D, value, word } = steps;
  const product = (d) => value("q", head, row, d) * value("k", head, column, d);
  const products = indices(D).map((d) => ({ name: `${d}`, value: product(d) }));
  const parts = D > MOST ? largest(products, MOST) : products;
  const title = `q of ${word(row)} · k of ${word(column)}`;
  const [masked, scaled] = [value("masked_scores", head, row, column), total / Math.sqrt(D)];
  const agrees = Math.abs(masked - scaled) < 1e-3 * steps.most.scores || masked === -Infinity;
  const afterMask = Number.isNaN(masked) ? "" : `to the softmax goes ${number(masked)}`; // NaN: it is not known
  const note = agrees ? `÷ √${D} = ${number(scaled)}` : afterMask;
  const listed = parts.map((part, i) => (i ? signed : number)(part.value)).join(" ");
  const text = `${title} in head ${head}: ${listed} = ${number(total)}${note && `; ${note}`}`;
  return { title, parts, note, text };
}

function insideWeight({ S, value, word, hidden }, { head, row, column }, total) {
  const title = `softmax over the row of ${word(row)}`;
  if (hidden(head, row, column))
    return {
      title,
      text: `${word(column)} is hidden from ${word(row)}: its score is −∞, its weight ${number(total)}`,
    };
  const scores = indices(S).map((j) => value("masked_scores", head, row, j));
  const top = Math.max(...scores);
  const pair = `${word(row)} → ${word(column)} in head ${head}: `;
  if (Number.isNaN(top)) return { title, text: pair + number(total) };
  const powers = scores.map((score, j) => ({ name: word(j), value: Math.exp(score - top) }));
  const sum = number(powers.reduce((all, { value }) => all + value, 0));
  const own = number(powers[column].value);
  const text = `${pair}exp(${number(scores[column])} − ${number(top)}) = ${own}, of the row's sum ${sum}: ${number(total)}`;
  return { title, parts: largest(powers), note: `${own} of ${sum}`, text };
}

function insideContext({ S, value, word }, { head, row, column }, total) {
  const product = (j) => value("weights", head, row, j) * value("v", head, j, column);
  const parts = largest(indices(S).map((j) => ({ name: word(j), value: product(j) })));
  const title = `context of ${word(row)}: weight · v`;
  const first = parts.slice(0, 3).map((part) => `${part.name} ${number(part.value)}`);
  const text = `context of ${word(row)}, number ${column} of head ${head}: weight · v, largest first: ${first.join(", ")} … = ${number(total)}`;
  return { title, parts, text };
}

function insideOut({ H, value, arrays, word }, { row, column }, total) {
  const title = `out of ${word(row)}, number ${column}`;
  if (!arrays.parts) return { title, text: `${title}: ${number(total)}` };
  const added = (h) => ({ name: `head ${h}`, value: value("parts", h, row, column) });
  const parts = [...indices(H).map(added), { name: "bias", value: arrays.bias[column] }];
  const listed = parts.map((part) => `${part.name} ${number(part.value, true)}`).join(", ");
  return { title, parts, text: `${title}: ${listed} = ${number(total)}` };
}

function insideAny({ word }, { name, head, row, column }, total) {
  const of = name === "x" ? "" : ` of head ${head}`;
  const title = `${name} of ${word(row)}, number ${column}${of}`;
  return { title, text: `${title}: ${number(total)}` };
}

const EXPLAIN = {
  scores: insideScore,
  weights: insideWeight,
  context: insideContext,
  out: insideOut,
};

/** Say what a number is made of: a title, its parts, their total, a note, and all of it as text. */
export function lookInside(steps, cell) {
  const total = steps.value(cell.name, cell.head, cell.row, cell.column);
  const explain = EXPLAIN[cell.name] ?? insideAny;
  return { parts: [], note: "", total, ...explain(steps, cell, total) };
}

/** Return the key with a row's largest weight, and the weight; null if it sees none. */
export function strongest(steps, head, row) {
  const weights = indices(steps.S).map((j) => steps.value("weights", head, row, j));
  const column = weights.indexOf(Math.max(...weights));
  return weights[column] > 0 ? { column, weight: weights[column] } : null;
}
