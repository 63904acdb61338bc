// The stages of the scene: what each highlights, how it arranges heads, and its sentence. Nothing here draws.

import { number } from "../../../widgets/dom.js";
import { strongest } from "./numbers.js";

/**
 * @typedef {object} StageOfScene
 * @property {string} name
 * @property {string[]} [highlights] The parts of the picture that it shows in full; all without it.
 * @property {?string} looksInto The matrix whose numbers are explained first.
 * @property {boolean} [split] Whether q, k and v are split into heads.
 * @property {boolean} [together] Whether the heads' contexts are side by side.
 * @property {number} [others] How visible the other heads are.
 * @property {number} [seconds] How long its motion takes while it plays.
 * @property {string[]} [makes] The parts that come into being in its motion.
 * @property {string[]} [moves] The parts that are there before, and move.
 * @property {number} [lines] The fraction of the motion from which lines from number to number are seen.
 * @property {number} [bars] The fraction from which it is seen what a number is made of.
 * @property {(subject: object) => string} sentence Of what `sentenceOf` knows.
 */

const FAINT = 0.28; // what a stage does not show
const ofHeads = { split: true, others: 0.25 };
const ofAllHeads = { split: true, together: true };

const after = (clause) => clause && `: ${clause}`;

/** @type {StageOfScene} */
const OVERVIEW = {
  name: "overview",
  looksInto: "scores",
  split: true,
  others: 0.55,
  sentence: ({ steps, head, attends }) =>
    `${steps.S} words go in at the left and come out at the right` +
    `${attends && `; in head ${head}, ${attends}`}.`,
};

/** @type {StageOfScene[]} */
export const STAGES = [
  {
    name: "input",
    seconds: 3,
    makes: ["x"],
    highlights: ["x"],
    looksInto: null,
    sentence: ({ steps, word, attends }) =>
      `x: each of the ${steps.S} words is a row of ${steps.C} numbers` +
      `${after(attends && `${word} is the row in orange`)}.`,
  },
  {
    name: "projection",
    seconds: 5,
    makes: ["q", "k", "v"],
    bars: 0.9,
    highlights: ["x", "q", "k", "v", "projection"],
    looksInto: "q",
    sentence: () => "Three projections of x: a query q, a key k and a value v for every word.",
  },
  {
    name: "head splitting",
    seconds: 3,
    moves: ["q", "k", "v"],
    highlights: ["q", "k", "v"],
    looksInto: "q",
    ...ofHeads,
    sentence: ({ steps, head }) =>
      `q, k and v are cut into ${steps.H} heads of ${steps.D} numbers each; head ${head} is followed from here.`,
  },
  {
    name: "scores",
    seconds: 9,
    makes: ["scores"],
    lines: 0.6,
    bars: 0.36,
    highlights: ["q", "k", "scores"],
    looksInto: "scores",
    ...ofHeads,
    sentence: ({ steps, word, key, score }) =>
      `Every row of q meets every column of kᵀ, summing ${steps.D} products` +
      `${after(score && `${word} scores ${score} with ${key}`)}.`,
  },
  {
    name: "scaling",
    seconds: 5,
    bars: 0,
    highlights: ["scores", "scaling"],
    looksInto: "scores",
    ...ofHeads,
    sentence: ({ steps }) =>
      `Scores are divided by √${steps.D} = ${number(Math.sqrt(steps.D))}; ` +
      `${steps.masked ? "the mask hides some of them here" : "no mask hides any of them"}.`,
  },
  {
    name: "softmax",
    seconds: 7,
    makes: ["weights"],
    bars: 0.3,
    highlights: ["scores", "scaling", "weights"],
    looksInto: "weights",
    ...ofHeads,
    sentence: ({ attends }) =>
      `Softmax turns each row of scores into weights that sum to 1${after(attends)}.`,
  },
  {
    name: "weighted sum",
    seconds: 8,
    makes: ["context"],
    lines: 0.3,
    bars: 0.7,
    highlights: ["weights", "v", "context"],
    looksInto: "context",
    ...ofHeads,
    sentence: ({ word, key, weight, attends }) =>
      "The weights of a row mix the rows of v into its context" +
      `${after(weight ? `${word} takes ${weight} of the v of ${key}` : attends)}.`,
  },
  {
    name: "concatenation",
    seconds: 3,
    moves: ["context"],
    bars: 0,
    highlights: ["context"],
    looksInto: "context",
    ...ofAllHeads,
    sentence: ({ steps }) =>
      `The contexts of all ${steps.H} heads lie side by side: ${steps.C} numbers for each word again.`,
  },
  {
    name: "output",
    seconds: 6,
    makes: ["out"],
    bars: 0.5,
    highlights: ["context", "out", "output", "x", "residual"],
    looksInto: "out",
    ...ofAllHeads,
    sentence: ({ steps }) =>
      "The output projection mixes what the heads found into out" +
      `${steps.arrays.x ? ", which is added to the stream that x was made from" : ""}.`,
  },
];

/** Return a stage by its number; -1 is the overview. */
export const stageAt = (stage) => STAGES[stage] ?? OVERVIEW;

const ROWS = ["x", "q", "scores", "weights", "context", "out"]; // with words next to them

/** Return how visible a part of the picture is at a stage, from 0 to 1. */
export function visibilityOf(name, stage) {
  const { highlights } = stageAt(stage);
  if (!highlights || name === "always") return 1;
  const parts = name === "words" ? ROWS : [name];
  return parts.some((part) => highlights.includes(part)) ? 1 : FAINT;
}

/** Return whether a part of the picture is visible at a fraction of a stage's motion. */
export function isMade(name, stage, fraction = 1) {
  const at = STAGES.findIndex(({ makes = [] }) => makes.includes(name));
  return stage < 0 || at < stage || (at === stage && fraction === 1);
}

/** Return whether a part's heads are separate at a stage, with one of them unfolded. */
export function isUnfolded(name, stage) {
  const { split, together } = stageAt(stage);
  return name === "context" ? !together : Boolean(split);
}

/** Say in one sentence what a stage shows. */
export function sentenceOf(steps, { stage, row, head }) {
  const { sentence } = stageAt(stage);
  const nothing = { steps, head, weight: "", score: "", attends: "" };
  if (row < 0) return sentence(nothing);
  const word = `“${steps.word(row)}”`;
  const best = strongest(steps, head, row);
  if (!best) return sentence({ ...nothing, word, attends: `${word} sees nothing` });
  const key = `“${steps.word(best.column)}”`;
  const weight = number(best.weight);
  const score = number(steps.value("scores", head, row, best.column));
  const attends = `${word} puts ${weight} on ${key}`;
  return sentence({ steps, head, word, key, weight, score, attends });
}
