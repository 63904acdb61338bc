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
  const arrays = {};
  for (const [name, bytes] of Object.entries(state.arrays))
    arrays[name] = new Float32Array(bytesOf(bytes).buffer);
  const widths = { x: C, out: C, parts: C, scores: S, masked_scores: S, weights: S };
  const widthOf = (name) => widths[name] ?? D; // of a row of one head's part
  const undivided = { x: true, out: true };
  const value = (name, head, row, column) => {
    if (name === "merged") return arrays.merged[row * C + head * D + column]; // the part of a head
    return arrays[name][((undivided[name] ? 0 : head * S) + row) * widthOf(name) + column];
  };
  const most = {};
  for (const [name, values] of Object.entries(arrays))
    most[name] =
      values.reduce((top, x) => (Number.isFinite(x) ? Math.max(top, Math.abs(x)) : top), 0) || 1;
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

const listed = (parts) =>
  parts.map(({ value }, i) => (i ? signed(value) : number(value))).join(" ");
const signed = (value) => (value < 0 ? `− ${number(-value)}` : `+ ${number(value)}`);

function insideScore(steps, { head, row, column }) {
  const { D, value, word } = steps;
  const product = (d) => value("q", head, row, d) * value("k", head, column, d);
  const parts = indices(D).map((d) => ({ name: `${d}`, value: product(d) }));
  const terms = D > MOST ? largest(parts, MOST) : parts;
  const total = value("scores", head, row, column);
  const title = `q of ${word(row)} · k of ${word(column)}`;
  const [masked, scaled] = [value("masked_scores", head, row, column), total / Math.sqrt(D)];
  const agrees = Math.abs(masked - scaled) < 1e-3 * steps.most.scores || masked === -Infinity;
  const afterMask = Number.isNaN(masked) ? "" : `to the softmax goes ${number(masked)}`; // NaN: it is not known
  const note = agrees ? `÷ √${D} = ${number(scaled)}` : afterMask;
  const sum = `${title} in head ${head}: ${listed(terms)} = ${number(total)}`;
  const text = note ? `${sum}; ${note}` : sum;
  return { title, parts: terms, total, text, note };
}

function insideWeight(steps, { head, row, column }) {
  const { S, value, word, hidden } = steps;
  const title = `softmax over the row of ${word(row)}`;
  const total = value("weights", head, row, column);
  if (hidden(head, row, column)) {
    const text = `${word(column)} is hidden from ${word(row)}: its score is −∞, its weight ${number(total)}`;
    return { title, parts: [], total, text };
  }
  const scores = indices(S).map((j) => value("masked_scores", head, row, j));
  const top = Math.max(...scores);
  if (Number.isNaN(top)) {
    const text = `${word(row)} → ${word(column)} in head ${head}: ${number(total)}`;
    return { title, parts: [], total, text };
  }
  const parts = scores.map((score, j) => ({
    name: word(j),
    value: Math.exp(score - top),
    highlighted: j === column,
  }));
  const sum = parts.reduce((all, part) => all + part.value, 0);
  const power = `exp(${number(scores[column])} − ${number(top)}) = ${number(parts[column].value)}`;
  const text = `${word(row)} → ${word(column)} in head ${head}: ${power}, of the row's sum ${number(sum)}: ${number(total)}`;
  return {
    title,
    parts: largest(parts),
    total,
    text,
    note: `${number(parts[column].value)} of ${number(sum)}`,
  };
}

function insideContext(steps, { head, row, column }) {
  const { S, value, word } = steps;
  const product = (j) => value("weights", head, row, j) * value("v", head, j, column);
  const parts = largest(indices(S).map((j) => ({ name: word(j), value: product(j) })));
  const total = value("context", head, row, column);
  const title = `context of ${word(row)}: weight · v`;
  const first = parts.slice(0, 3).map((part) => `${part.name} ${number(part.value)}`);
  const text = `context of ${word(row)}, number ${column} of head ${head}: weight · v, largest first: ${first.join(", ")} … = ${number(total)}`;
  return { title, parts, total, text };
}

function insideOut(steps, { row, column }) {
  const { H, value, arrays, word } = steps;
  const total = value("out", 0, row, column);
  const title = `out of ${word(row)}, number ${column}`;
  if (!arrays.parts) return { title, parts: [], total, text: `${title}: ${number(total)}` };
  const parts = indices(H).map((h) => ({
    name: `head ${h}`,
    value: value("parts", h, row, column),
  }));
  parts.push({ name: "bias", value: arrays.bias[column] });
  const remainder = total - parts.reduce((sum, part) => sum + part.value, 0);
  if (Math.abs(remainder) > 1e-3 * steps.most.out) parts.push({ name: "other", value: remainder });
  const text = `${title}: ${parts.map((part) => `${part.name} ${number(part.value, true)}`).join(", ")} = ${number(total)}`;
  return { title, parts, total, text };
}

/** Explain a number: a title, its parts, their total, and all of it as text. */
export function lookInside(steps, cell) {
  const explain = {
    scores: insideScore,
    weights: insideWeight,
    context: insideContext,
    out: insideOut,
  }[cell.name];
  if (explain) return explain(steps, cell);
  const total = steps.value(cell.name, cell.head, cell.row, cell.column);
  const of = cell.name === "x" ? "" : ` of head ${cell.head}`;
  const title = `${cell.name} of ${steps.word(cell.row)}, number ${cell.column}${of}`;
  return { title, parts: [], total, text: `${title}: ${number(total)}` };
}

/** Return the key with a row's largest weight, and the weight; null if it sees none. */
export function strongest(steps, head, row) {
  const weights = indices(steps.S).map((j) => steps.value("weights", head, row, j));
  const column = weights.indexOf(Math.max(...weights));
  return weights[column] > 0 ? { column, weight: weights[column] } : null;
}
