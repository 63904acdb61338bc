// What the explorer draws for a sentence without a kernel: what maps.py sends for the same weights.

import { makeModel, readWeights } from "./masked_word_model.js";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

/** Number the occurrences of each repeated word, as plots/inputs.py does. */
function numbered(words) {
  const countOf = (word, end) => words.slice(0, end).filter((other) => other === word).length;
  const subscript = (count) => [...`${count}`].map((digit) => SUBSCRIPTS[digit]).join("");
  return words.map((word, i) => {
    const repeated = countOf(word) > 1 && /^\p{L}+$/u.test(word);
    return repeated ? word + subscript(countOf(word, i + 1)) : word;
  });
}

const entropyOf = (map, S) =>
  -map.reduce((sum, weight) => sum + (weight > 0 ? weight * Math.log(weight) : 0), 0) / S;

/** Return the maps of the heads, followed by their average. */
function packetOf({ tokens, weights, H, S }) {
  const size = S * S;
  const numbers = new Float32Array((H + 1) * size);
  numbers.set(weights);
  for (let i = 0; i < H * size; i++) numbers[H * size + (i % size)] += weights[i] / H;
  const facts = Array.from({ length: H + 1 }, (_, slot) => {
    const entropy = Math.max(0, entropyOf(numbers.subarray(slot * size, (slot + 1) * size), S));
    return { entropy, sums: [1, 1], over_queries: false, nans: 0, leak: 0 };
  });
  const names = numbered(tokens);
  const words = S > 1 ? [[tokens, tokens]] : null;
  const drawn = { shape: [1, H, S, S], facts, tokens: [[names, names]], words };
  return { ...drawn, numbers, hidden: null, trouble: "" };
}

/** Return the answerer for sentences with these weights (exported_weights), as without_kernel.js needs it. */
function answerWith(bytes) {
  const { weights, vocabulary } = readWeights(bytes);
  const { attention } = makeModel(weights, vocabulary);
  return ({ sentence }, state) => {
    const answer = attention(sentence);
    const drawn = answer.trouble ? answer : packetOf(answer);
    return { ...state, ...drawn, values: { ...state.values, sentence } };
  };
}

export default answerWith;
