// All steps in a row, in groups by their stage.

import { make, makeButton, short } from "../dom.js";
import { makeMark } from "./facts.js";

const MANY = 30; // steps, beyond which the timeline spells out only the stage it is in

function makePill(step, i, word, stopped, go) {
  const [op, name] = [word(step.op), word(step.stage)];
  const warned = step.warning !== undefined || stopped;
  const spoken = `Step ${i + 1}: ${op}${warned ? ", warning" : ""}${step.hidden ? ", hidden copies" : ""}`;
  const pill = makeButton(`pill ${word(step.storage)}`, short(op, 16), () => go(i), spoken);
  pill.tabIndex = -1; // arrow keys step: Tab need not lead through all of them
  pill.title = `${i + 1}. ${op}${name && ` (${name})`}`;
  pill.append(...(warned ? [makeMark("warns")] : []), ...(step.hidden ? [makeMark("hides")] : []));
  return pill;
}

/** Return the timeline, how to mark the step that is shown, and the pill of each step. */
export function makeTimeline({ steps, failure }, word, go) {
  const node = make("div", `timeline${steps.length > MANY ? " dense" : ""}`);
  const staged = steps.some((step) => step.stage !== undefined);
  let group = null;
  const pills = steps.map((step, i) => {
    if (!i || step.stage !== steps[i - 1].stage) {
      group = make("div", "group", ...(staged ? [make("span", "part", word(step.stage))] : []), make("div", "pills"));
      node.append(group);
    }
    const pill = makePill(step, i, word, failure && i === steps.length - 1, go);
    group.lastChild.append(pill);
    return { pill, group };
  });
  function mark(i, before) {
    for (const one of Object.values(pills[before] ?? {})) one.classList.remove("now");
    for (const one of Object.values(pills[i])) one.classList.add("now");
  }
  return { node, mark, pill: (i) => pills[i].pill };
}
