// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

import { make, say } from "../dom.js";
import { makePlayer } from "../player.js";
import { describe, tokens } from "../tensor.js";
import { factsOf, makeMark, storageWords, warningBox } from "./facts.js";
import { Flow } from "./flow.js";
import { listing } from "./listing.js";
import { makeTimeline } from "./timeline.js";

const WIDE = 720; // pixels from where on the code stands beside the tensors

function makeLegend({ steps }) {
  const legend = make("p", "note", "Dashed: a view, with no memory of its own.");
  if (steps.some(({ form }) => tokens(form)))
    legend.prepend("Shade: the stronger the colour, the later the token. ");
  if (steps.some((step) => step.hidden_copies))
    legend.append(" ", makeMark("hides"), " copies that nobody wrote.");
  if (steps.some((step) => step.warning || step.question))
    legend.append(" ", makeMark("warns"), " warning.");
  return legend;
}

function render(context) {
  const data = context.model.get("options");
  const { steps, notes, failure, last } = data;
  const { root, go, follow, end } = makePlayer(context, "mha-tracer", "Shapes, step by step", show);
  if (!steps.length) {
    const stopped = failure ? warningBox("Stopped", failure) : "";
    root.replaceChildren("No steps: nothing was called that makes a tensor.", stopped);
    return end;
  }
  let room = 0;
  const [spoken, facts] = [make("p", "said"), make("div", "facts")];
  spoken.setAttribute("aria-live", "polite");
  const timeline = makeTimeline(data, go);
  const code = listing(data, go);
  const flow = new Flow(data, (i) => {
    go(i);
    root.focus(); // the link that was clicked is gone
  });
  const stage = make("div", "stage", flow.node, facts);
  const body = make("div", "body", code.pane, stage);
  const remarks = notes.map((note) => make("p", "note", note));
  root.append(timeline.node, spoken, body, makeLegend(data), ...remarks);

  /** Bring line and pill into view. All that is measured is measured first: the page is laid out once. */
  function scrollTo(pill) {
    const height = flow.node.offsetHeight;
    const middle = pill.offsetLeft - timeline.node.clientWidth / 2;
    const top = code.away();
    flow.node.style.minHeight = `${height}px`; // what has been as high stays so: nothing below jumps
    if (top !== null) code.pane.lastChild.scrollTop = top;
    timeline.node.scrollLeft = middle;
  }

  function show(at, before) {
    const step = steps[at];
    timeline.mark(at, before);
    const result = `${step.name || "a tensor"} of shape ${describe(step.form)}`;
    say(
      spoken,
      `Step ${at + 1} of ${steps.length}: ${step.op} makes ${result}, ${storageWords(step.storage)}.`,
    );
    body.classList.toggle("warned", Boolean(step.warning || step.question));
    flow.show(step, at);
    facts.replaceChildren(...factsOf(step, at === last ? failure : null));
    code.light(step);
    scrollTo(timeline.pill(at));
  }

  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    root.classList.toggle("wide", room >= WIDE);
    flow.fit(stage.clientWidth);
    show(context.model.get("position"), -1);
  });
  follow();
  watch.observe(root);
  return () => {
    watch.disconnect();
    end();
  };
}

export default { render };
