// What the explorer draws for a sentence without a kernel: what maps.py sends for the same weights.

import { attention, readWeights } from "./masked_word_model.js";

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

const entropyOf = (map) => {
  const terms = map.flat().map((weight) => (weight > 0 ? -weight * Math.log(weight) : 0));
  return Math.max(0, terms.reduce((sum, term) => sum + term, 0) / map.length);
};

/** Return the maps of the heads, followed by their average. */
function packetOf({ tokens, weights }) {
  const [H, S] = [weights.length, tokens.length];
  const mean = (row, column) => weights.reduce((sum, map) => sum + map[row][column] / H, 0);
  const average = tokens.map((_, row) => tokens.map((_, column) => mean(row, column)));
  const maps = [...weights, average];
  const fact = { sums: [1, 1], over_queries: false, nans: 0, leak: 0 };
  const facts = maps.map((map) => ({ ...fact, entropy: entropyOf(map) }));
  const names = numbered(tokens);
  const words = S > 1 ? [[tokens, tokens]] : null;
  const drawn = { shape: [1, H, S, S], facts, tokens: [[names, names]], words };
  return { ...drawn, numbers: Float32Array.from(maps.flat(2)), hidden: null, trouble: "" };
}

/** Return the answerer for sentences with these weights (exported_weights), as without_kernel.js needs it. */
function answerWith(bytes) {
  const model = readWeights(bytes);
  return ({ sentence }, state) => {
    const answer = attention(sentence, model);
    const drawn = answer.trouble ? answer : packetOf(answer);
    return { ...state, ...drawn, values: { ...state.values, sentence } };
  };
}

export default answerWith;
