// What the explorer draws of a sentence where there is no kernel: what maps.py sends of the same weights.

import { makeModel, readWeights } from "./masked_word_model.js";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

/** Mark each word that a sentence repeats with the number of its occurrence, as plots/inputs.py does. */
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

/** Return the maps of the last R layers: their heads, each layer followed by their average. */
function packetOf({ tokens, weights, H, S }, R) {
  const size = S * S;
  const slots = H + 1;
  const numbers = new Float32Array(R * slots * size);
  for (let layer = 0; layer < R; layer++) {
    const begin = weights.length - (R - layer) * H * size;
    const own = numbers.subarray(layer * slots * size, (layer + 1) * slots * size);
    own.set(weights.subarray(begin, begin + H * size));
    for (let i = 0; i < H * size; i++) own[H * size + (i % size)] += own[i] / H;
  }
  const facts = Array.from({ length: R * slots }, (_, i) => {
    const entropy = Math.max(0, entropyOf(numbers.subarray(i * size, (i + 1) * size), S));
    return { entropy, sums: [1, 1], over_queries: false, nans: 0, leak: 0 };
  });
  const names = numbered(tokens);
  const words = S > 1 ? Array(R).fill([tokens, tokens]) : null;
  const found = { shape: [R, H, S, S], facts, tokens: Array(R).fill([names, names]), words };
  return { ...found, numbers, hidden: null, trouble: "" };
}

/** Return what answers to a sentence with the model of these weights (exported_weights), as without_kernel.js asks. */
function answerWith(bytes) {
  const { weights, vocabulary } = readWeights(bytes);
  const { attention } = makeModel(weights, vocabulary);
  return ({ sentence }, state) => {
    const found = attention(sentence);
    const drawn = found.trouble ? found : packetOf(found, state.shape[0]);
    return { ...state, ...drawn, values: { ...state.values, sentence } };
  };
}

export default answerWith;
