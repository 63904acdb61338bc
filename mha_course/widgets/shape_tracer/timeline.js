// All steps in a row, grouped by stage.

import { make, makeButton, short } from "../dom.js";
import { makeMark } from "./facts.js";

function makePill(
  { op, stage, storage, warning, question, hidden_copies: hidden },
  i,
  stopped,
  go,
) {
  const warned = warning || question || stopped;
  const spoken = `Step ${i + 1}: ${op}${warned ? ", warning" : ""}${hidden ? ", hidden copies" : ""}`;
  const pill = makeButton(`pill ${storage}`, short(op, 16), () => go(i), spoken);
  pill.tabIndex = -1; // arrow keys step: Tab need not lead through all of them
  pill.title = `${i + 1}. ${op}${stage && ` (${stage})`}`;
  if (warned) pill.append(makeMark("warns"));
  if (hidden) pill.append(makeMark("hides"));
  return pill;
}

/** Return the timeline, its pills, and how to mark the one of a step, and its group. */
export function makeTimeline({ steps, failure }, go) {
  const node = make("div", "timeline");
  const staged = steps.some((step) => step.stage);
  let pillsOfStage = null;
  const pills = steps.map((step, i) => {
    if (!i || step.stage !== steps[i - 1].stage) {
      pillsOfStage = make("div", "pills");
      const title = staged ? [make("span", "part", step.stage)] : [];
      node.append(make("div", "group", ...title, pillsOfStage));
    }
    const pill = makePill(step, i, failure && i === steps.length - 1, go);
    pillsOfStage.append(pill);
    return pill;
  });
  function mark(i) {
    for (const marked of node.querySelectorAll(".now")) marked.classList.remove("now");
    pills[i].classList.add("now");
    pills[i].closest(".group").classList.add("now");
  }
  return { node, mark, pills };
}
