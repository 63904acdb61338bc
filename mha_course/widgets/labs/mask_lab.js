// The lab of lessons 4 and 8: computes what mask.py draws at the start.

import { isolateWord } from "../dom.js";
import { inView } from "../in_view.js";
import { renderLab } from "./lab.js";
import { KINDS } from "./panels.js";

/** Whether query t may attend to key s, in the order of PRESETS in mask.py, where the last one is painted. */
const PRESETS = {
  none: () => true,
  causal: (t, s) => s <= t,
  padding: (t, s, n, size) => s < size - n,
  "left padding, causal": (t, s, n) => n <= s && s <= t,
  window: (t, s, n) => Math.abs(t - s) <= n,
};
const RULES = Object.values(PRESETS);
const PAINTED = RULES.length;
const [COURSE, BY_HAND, FINITE] = [0, 1, 2]; // what fills hidden scores, in the order of FILLS

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

/** Return the state after a move. */
function compute(moved, { panels, values: before }) {
  const values = { ...before, ...moved };
  const words = panels[0].rows.map((word) => isolateWord(word));
  const { scores } = panels[1];
  const sees = RULES[values.preset];
  if ("mask" in moved && !("preset" in moved)) values.preset = PAINTED;
  else if (("preset" in moved || "n" in moved) && sees)
    values.mask = scores.map((row, t) =>
      row.map((_, s) => Number(sees(t, s, values.n, row.length))),
    );
  const { mask, fill } = values;
  const hidden = mask.map((row) => row.map((cell) => 1 - cell));
  const weights = mask.map((row, t) => weightsOf(scores[t], row, fill));
  const tables = [mask, weights, mask, hidden, hidden, hidden]; // as the panels of mask.py
  const drawn = panels.map((panel, i) => ({
    ...panel,
    values: tables[i],
    hidden: panel.hidden && hidden,
  }));
  return { values, panels: drawn, text: sentenceOn(mask, words, fill) };
}

const render = (context) => renderLab(context, KINDS, { compute });

export default { render: inView(render) };
