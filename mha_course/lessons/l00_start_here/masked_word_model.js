// The course's masked-word model (mha_course/example.py) without Python: a sentence in, the last layer's weights out.
// Axes as there: S tokens, C width, H heads, D = C / H. A matrix is a list of its rows.

const [LAYERS, HEADS] = [2, 4];
const [NEAREST, CUTOFF] = [3, 0.5]; // of words that are proposed, as in mha_course/errors.py
const LONGEST_WORD = 24; // letters of an unknown word that are repeated

/** Read what exported_weights in masked_word_model.py writes: the length of a header, the header, float32 numbers. */
export function readWeights(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 4 + view.getUint32(0, true);
  const { shapes, vocabulary } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const numbers = new Float32Array(bytes.slice(start).buffer);
  let end = 0;
  const next = (length) => [...numbers.subarray(end, (end += length))];
  const weights = {};
  for (const [name, [rows, columns]] of Object.entries(shapes))
    weights[name] = columns ? Array.from({ length: rows }, () => next(columns)) : next(rows);
  return { weights, vocabulary };
}

const sum = (row) => row.reduce((all, value) => all + value, 0);
const dot = (a, b) => sum(a.map((value, i) => value * b[i]));
const add = (x, y) => x.map((row, s) => row.map((value, c) => value + y[s][c]));
const transpose = (x) => x[0].map((_, c) => x.map((row) => row[c]));

const linear = (x, weight, bias) =>
  x.map((row) => weight.map((parameters, i) => dot(row, parameters) + bias[i]));

const layerNorm = (x, weight, bias) =>
  x.map((row) => {
    const centred = row.map((value) => value - sum(row) / row.length);
    const deviation = Math.sqrt(dot(centred, centred) / row.length + 1e-5);
    return centred.map((value, c) => (value / deviation) * weight[c] + bias[c]);
  });

/** The error function: Abramowitz and Stegun 7.1.26, off by at most 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const polynomial = series.reduce((inner, coefficient) => (inner + coefficient) * t, 0);
  return Math.sign(x) * (1 - polynomial * Math.exp(-x * x));
}
const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

function softmax(row) {
  const powers = row.map((score) => Math.exp(score - Math.max(...row)));
  return powers.map((power) => power / sum(powers));
}

/** Return the weights of each head, (H, S, S), and the heads' contexts side by side, (S, C). */
function attend(...projected) {
  const D = projected[0][0].length / HEADS;
  const weights = [];
  const context = projected[0].map(() => []);
  for (let start = 0; start < HEADS * D; start += D) {
    const [q, k, v] = projected.map((x) => x.map((row) => row.slice(start, start + D)));
    const map = q.map((query) => softmax(k.map((key) => dot(query, key) / Math.sqrt(D))));
    weights.push(map);
    for (const [s, row] of map.entries())
      context[s].push(...transpose(v).map((column) => dot(row, column)));
  }
  return { weights, context };
}

/** Count the letters that two words share: their longest common piece, then those before and after it. */
function sharedLetters(a, b) {
  for (let length = Math.min(a.length, b.length); length > 0; length--)
    for (let start = 0; start + length <= a.length; start++) {
      const at = b.indexOf(a.slice(start, start + length));
      if (at < 0) continue;
      const before = sharedLetters(a.slice(0, start), b.slice(0, at));
      return before + length + sharedLetters(a.slice(start + length), b.slice(at + length));
    }
  return 0;
}

/** Return the words nearest to an unknown one, by the ratio that Python's difflib uses. */
function nearWords(word, vocabulary) {
  const ratio = (other) => (2 * sharedLetters(other, word)) / (other.length + word.length);
  const similar = vocabulary.map((other) => [ratio(other), other]).filter(([a]) => a >= CUTOFF);
  similar.sort(([a, first], [b, second]) => b - a || (first < second ? 1 : -1));
  return similar.slice(0, NEAREST).map(([, other]) => other);
}

/** Say what is wrong with a sentence, or nothing, in the words of mha_course/errors.py. */
function troubleWith(tokens, vocabulary, longest) {
  const unknown = tokens.find((word) => !vocabulary.includes(word));
  if (unknown) {
    const cut = unknown.length > LONGEST_WORD ? `${unknown.slice(0, LONGEST_WORD - 1)}…` : unknown;
    const similar = nearWords(cut, vocabulary).join(", ");
    const rule = `“${cut}” is not one of the ${vocabulary.length} words that can be read`;
    return similar ? `${rule}; near ones: ${similar}` : rule;
  }
  if (!tokens.length) return "a sentence needs at least one word";
  const limit = `more than the ${longest} that can be read`;
  return tokens.length > longest ? `the sentence has ${tokens.length} words, ${limit}` : "";
}

/** Read a sentence as typed, as words_of in mha_course/datasets/grammar.py does. */
const wordsOf = (text) => text.toLowerCase().match(/<\w+>|,|[^\s,.;:!?“”"]+/g) ?? [];

/** Return the tokens of a sentence and the last layer's weights, (H, S, S), or what is wrong with it as `{ trouble }`. */
export function attention(sentence, { weights, vocabulary }) {
  const tokens = wordsOf(sentence);
  const positions = weights["position_embedding.weight"];
  const trouble = troubleWith(tokens, vocabulary, positions.length);
  if (trouble) return { trouble };
  const embed = (word) => weights["token_embedding.weight"][vocabulary.indexOf(word)];
  let x = add(tokens.map(embed), positions);
  for (let layer = 0; ; layer++) {
    const get = (name) => weights[`encoder.layers.${layer}.${name}`];
    const run = (compute, name, input) =>
      compute(input, get(`${name}.weight`), get(`${name}.bias`));
    const normed = run(layerNorm, "norm1", x);
    const attended = attend(
      ...["q", "k", "v"].map((name) => run(linear, `attention.${name}_proj`, normed)),
    );
    if (layer === LAYERS - 1) return { tokens, weights: attended.weights };
    x = add(x, run(linear, "attention.out_proj", attended.context));
    const inner = run(linear, "feed_forward.0", run(layerNorm, "norm2", x));
    const activated = inner.map((row) => row.map(gelu));
    x = add(x, run(linear, "feed_forward.3", activated));
  }
}
