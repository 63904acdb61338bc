// What mask.py draws, for a page without a kernel.

import { valuesAfter } from "../without_kernel.js";

/** Whether query t may attend to key s, by the name of a preset. */
const PRESETS = {
  none: () => true,
  causal: (t, s) => s <= t,
  padding: (t, s, n, size) => s < size - n,
  "left padding, causal": (t, s, n) => n <= s && s <= t,
  window: (t, s, n) => Math.abs(t - s) <= n,
};
const PAINTED = "painted";
const [COURSE, BY_HAND, FINITE] = ["0 (this course)", "-inf by hand", "-1e9"]; // what fills hidden scores

/** Return the weights of a row of scores, whose hidden ones are replaced as `fill` says. */
function weightsOf(scores, allowed, fill) {
  if (!allowed.includes(1) && fill !== FINITE)
    return scores.map(() => (fill === BY_HAND ? null : 0)); // null is NaN
  const low = fill === FINITE ? -1e9 : -Infinity;
  const filled = scores.map((score, s) => (allowed[s] ? score : low));
  const most = Math.max(...filled);
  const shares = filled.map((score) => Math.exp(score - most));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}

/** Count what may be seen, and say what the rows do that see nothing. */
function sentenceOn(mask, words, fill) {
  const size = words.length;
  const visible = mask.map((row) => row.filter(Boolean).length);
  const counted = `${visible.reduce((sum, n) => sum + n, 0)} of ${size * size} pairs may attend.`;
  const blind = words.filter((_, t) => !visible[t]);
  if (!blind.length) {
    const fewest = `${Math.min(...visible)} of ${size} ${size === 1 ? "word" : "words"}`;
    return `${counted} Every word sees something: the fewest see ${fewest}.`;
  }
  const first = blind.slice(0, 3).map((word) => `“${word}”`);
  const rows = `${blind.length} ${blind.length === 1 ? "row sees" : "rows see"} nothing`;
  const alike = `the weights there are all equal, ${(1 / size).toFixed(2)}`;
  const does = {
    [COURSE]: "the weights there are all 0",
    [BY_HAND]: "softmax gives NaN there, and NaN spreads",
    [FINITE]: `${alike}: a row that may see nothing sees everything`,
  };
  const named = first.join(", ") + (blind.length > 3 ? " …" : "");
  return `${counted} ${rows} (${named}): ${does[fill]}.`;
}

/** Return what answers to a move, as without_kernel.js asks. */
function answerWith({ scores, words, presets, fills }) {
  const all = words.map((_, place) => place);
  return (moved, { panels, values: before }) => {
    const values = valuesAfter(moved, before);
    const sees = PRESETS[presets[values.preset]];
    if ("mask" in moved && !("preset" in moved)) values.preset = presets.indexOf(PAINTED);
    else if (("preset" in moved || "n" in moved) && sees) {
      values.mask = all.map((t) => all.map((s) => Number(sees(t, s, values.n, all.length))));
    }
    const { mask } = values;
    const fill = fills[values.fill];
    const hidden = mask.map((row) => row.map((cell) => 1 - cell));
    const weights = mask.map((row, t) => weightsOf(scores[t], row, fill));
    const tables = [mask, weights, mask, hidden, hidden, hidden]; // as the panels of mask.py
    const drawn = panels.map((panel, i) => ({
      ...panel,
      values: tables[i],
      hidden: panel.hidden && hidden,
    }));
    return { values, panels: drawn, text: sentenceOn(mask, words, fill) };
  };
}

export default answerWith;
