// The course's masked-word model (mha_course/example.py) without Python: a sentence in, the last layer's weights out.
// Axes as there: S tokens, C width, H heads, D = C / H.

const [LAYERS, HEADS] = [2, 4];
const [NEAREST, CUTOFF] = [3, 0.5]; // of words that are proposed, as in mha_course/errors.py
const LONGEST_WORD = 24; // letters of an unknown word that are repeated

/** @typedef {{ tokens: string[], weights: Float32Array, H: number, S: number }} Attention Its weights are (H, S, S). */

/** Read what exported_weights in masked_word_model.py writes: the length of a header, the header, float32 numbers. */
export function readWeights(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 4 + view.getUint32(0, true);
  const { shapes, vocabulary } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const numbers = new Float32Array(bytes.slice(start).buffer);
  let end = 0;
  const tensors = Object.entries(shapes).map(([name, shape]) => {
    const values = numbers.subarray(end, (end += shape[0] * (shape[1] ?? 1)));
    return [name, { shape, values }];
  });
  return { weights: Object.fromEntries(tensors), vocabulary };
}

const sum = (row) => row.reduce((all, value) => all + value, 0);

/** Multiply rows (S, in) by a weight (out, in), and add a bias. */
function linear(x, S, { shape: [outs, ins], values }, bias) {
  const y = new Float32Array(S * outs);
  for (let s = 0; s < S; s++)
    for (let o = 0; o < outs; o++) {
      let total = bias.values[o];
      for (let i = 0; i < ins; i++) total += x[s * ins + i] * values[o * ins + i];
      y[s * outs + o] = total;
    }
  return y;
}

function layerNorm(x, S, weight, bias) {
  const C = weight.values.length;
  const y = new Float32Array(S * C);
  for (let s = 0; s < S; s++) {
    const row = x.subarray(s * C, s * C + C);
    const mean = sum(row) / C;
    const deviation = Math.sqrt(sum(row.map((value) => (value - mean) ** 2)) / C + 1e-5);
    for (let c = 0; c < C; c++)
      y[s * C + c] = ((row[c] - mean) / deviation) * weight.values[c] + bias.values[c];
  }
  return y;
}

/** The error function: Abramowitz and Stegun 7.1.26, off by at most 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const polynomial = series.reduce((inner, coefficient) => (inner + coefficient) * t, 0);
  return Math.sign(x) * (1 - polynomial * Math.exp(-x * x));
}
const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** Return the weights (H, S, S), and the heads' contexts side by side (S, C). */
function attend(q, k, v, S) {
  const [C, D] = [q.length / S, q.length / S / HEADS];
  const weights = new Float32Array(HEADS * S * S);
  const context = new Float32Array(S * C);
  for (let h = 0; h < HEADS; h++)
    for (let t = 0; t < S; t++) {
      const row = weights.subarray((h * S + t) * S, (h * S + t + 1) * S);
      for (let s = 0; s < S; s++)
        for (let d = h * D; d < h * D + D; d++)
          row[s] += (q[t * C + d] * k[s * C + d]) / Math.sqrt(D);
      const largest = Math.max(...row);
      const shares = row.map((score) => Math.exp(score - largest));
      const total = sum(shares);
      for (let s = 0; s < S; s++) {
        row[s] = shares[s] / total;
        for (let d = h * D; d < h * D + D; d++) context[t * C + d] += row[s] * v[s * C + d];
      }
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
  const cut = (word) => (word.length > LONGEST_WORD ? `${word.slice(0, LONGEST_WORD - 1)}…` : word);
  const unknown = tokens.filter((word) => !vocabulary.includes(word)).map(cut);
  if (unknown.length) {
    const similar = nearWords(unknown[0], vocabulary).join(", ");
    const rule = `“${unknown[0]}” is not one of the ${vocabulary.length} words that can be read`;
    return similar ? `${rule}; near ones: ${similar}` : rule;
  }
  if (!tokens.length) return "a sentence needs at least one word";
  const limit = `more than the ${longest} that can be read`;
  return tokens.length > longest ? `the sentence has ${tokens.length} words, ${limit}` : "";
}

/** Read a sentence as typed, as words_of in mha_course/datasets/grammar.py does. */
const wordsOf = (text) => text.toLowerCase().match(/<\w+>|,|[^\s,.;:!?“”"]+/g) ?? [];

/** Make the model; `attention(sentence)` returns an Attention, or what is wrong as `{ trouble }`. */
export function makeModel(weights, vocabulary) {
  const embeddings = weights["token_embedding.weight"].values;
  const { shape, values: positions } = weights["position_embedding.weight"];
  const [longest, C] = shape;
  const add = (x, y) => x.map((value, i) => value + y[i]);

  function attention(sentence) {
    const tokens = wordsOf(sentence);
    const trouble = troubleWith(tokens, vocabulary, longest);
    if (trouble) return { trouble };
    const S = tokens.length;
    let x = new Float32Array(S * C);
    tokens.forEach((word, s) => {
      const id = vocabulary.indexOf(word);
      for (let c = 0; c < C; c++) x[s * C + c] = embeddings[id * C + c] + positions[s * C + c];
    });
    for (let i = 0; ; i++) {
      const get = (name) => weights[`encoder.layers.${i}.${name}`];
      const run = (layer, name, input) =>
        layer(input, S, get(`${name}.weight`), get(`${name}.bias`));
      const normed = run(layerNorm, "norm1", x);
      const project = (name) => run(linear, `attention.${name}_proj`, normed);
      const { weights: maps, context } = attend(project("q"), project("k"), project("v"), S);
      if (i === LAYERS - 1) return { tokens, weights: maps, H: HEADS, S };
      x = add(x, run(linear, "attention.out_proj", context));
      const inner = run(linear, "feed_forward.0", run(layerNorm, "norm2", x));
      x = add(x, run(linear, "feed_forward.3", inner.map(gelu)));
    }
  }
  return { attention };
}
