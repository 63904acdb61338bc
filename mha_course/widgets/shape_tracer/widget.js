// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

import { make, setText } from "../dom.js";
import { inView } from "../in_view.js";
import { makePlayer } from "../player.js";
import { describe, tokens } from "./tensor.js";
import { factsOf, makeMark, memoryOf, storageWords, warningBox } from "./facts.js";
import { Flow } from "./flow.js";
import { lettersOf, listing } from "./listing.js";
import { makeTimeline } from "./timeline.js";

const WIDE = 720; // from this width on the code is next to the tensors

/**
 * What Python sends (widget.py).
 * @typedef {object} TracerOptions
 * @property {number} last The number of the last step.
 * @property {TracerStep[]} steps
 * @property {{ name: string, first: number, code: string }[]} sources Code, and the number of its first line.
 * @property {string[]} notes
 * @property {string | null} failure What stopped the call.
 *
 * @typedef {object} TracerStep A tensor that was made, as tracing/records.py describes it.
 * @property {string} op
 * @property {string | null} name Of the variable.
 * @property {string} stage
 * @property {string} line The code that made it, its number, and the source it is in.
 * @property {number} lineno
 * @property {number | null} source
 * @property {[number | string, import("./tensor.js").Form][]} inputs Each the number of its step, or a name.
 * @property {import("./tensor.js").Form} form
 * @property {number[]} strides
 * @property {boolean} contiguous
 * @property {"view" | "copy" | "same" | "new"} storage
 * @property {string} kind The dtype and the device.
 * @property {number} bytes
 * @property {number} flops
 * @property {number} hidden_copies
 * @property {string | null} warning "id: what happened", like the question.
 * @property {string | null} question
 * @property {string | null} note
 */

function makeLegend({ steps }) {
  const legend = make("p", "note", "Dashed: a view, with no memory of its own.");
  if (steps.some(({ form }) => tokens(form)))
    legend.prepend("Shade: the stronger the colour, the later the token. ");
  if (steps.some((step) => step.hidden_copies))
    legend.append(" ", makeMark("hides"), " hidden copies.");
  if (steps.some((step) => step.warning || step.question))
    legend.append(" ", makeMark("warns"), " warning.");
  return legend;
}

function sentenceOf({ op, name, form, storage }, at, { length }) {
  const result = `${name || "a tensor"} of shape ${describe(form)}`;
  return `Step ${at + 1} of ${length}: ${op} makes ${result}, ${storageWords(storage)}.`;
}

function render(context) {
  /** @type {TracerOptions} */
  const data = context.model.get("options");
  const { steps, notes, failure, last } = data;
  const player = makePlayer(context, "mha-tracer", "Shapes, step by step", show);
  const { root, go, end } = player;
  if (!steps.length) {
    const stopped = failure ? warningBox("Stopped", failure) : "";
    const missing = "No steps: nothing was called that makes a tensor.";
    root.replaceChildren(`${missing} Once your function does, run this cell again.`, stopped);
    return end;
  }
  let width = 0;
  const facts = make("div", "facts");
  const summary = make("summary", "", "In memory");
  const memory = make("details", "memory", summary); // as it was left, from step to step
  const spoken = make("p", "said");
  spoken.setAttribute("aria-live", "polite");
  const sentences = steps.map(sentenceOf);
  const longest = sentences.reduce((one, other) => (other.length > one.length ? other : one));
  const sentence = make("div", "sentence", spoken, make("p", "longest", longest));
  const timeline = makeTimeline(data, go);
  const code = listing(data, go);
  const flow = new Flow(data, (i) => {
    go(i);
    root.focus(); // the link that was clicked is gone
  });
  const stage = make("div", "stage", flow.node, facts);
  const body = make("div", "body", code.pane, stage);
  body.style.setProperty("--letters", lettersOf(data));
  const remarks = notes.map((note) => make("p", "note", note));
  root.append(timeline.node, sentence, body, makeLegend(data), ...remarks);

  /** Bring line and pill into view. All that is measured is measured first: the page is laid out once. */
  function scrollTo(pill) {
    const heights = [flow.node, facts].map((node) => [node, node.offsetHeight]);
    const { clientWidth, clientHeight } = timeline.node;
    const middle = [pill.offsetLeft - clientWidth / 2, pill.offsetTop - clientHeight / 2];
    const top = code.scrollTarget();
    for (const [node, height] of heights) node.style.minHeight = `${height}px`; // so that nothing below jumps
    if (top !== null) code.pane.lastChild.scrollTop = top;
    timeline.node.scrollTo(...middle);
  }

  function show(at) {
    const step = steps[at];
    timeline.mark(at);
    setText(spoken, sentences[at]);
    body.classList.toggle("warned", Boolean(step.warning || step.question));
    flow.show(step, at);
    memory.replaceChildren(summary, ...memoryOf(step));
    facts.replaceChildren(...factsOf(step, at === last ? failure : null), memory);
    code.mark(step);
    scrollTo(timeline.pills[at]);
  }

  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === width || !contentRect.width) return;
    width = contentRect.width;
    root.classList.toggle("wide", width >= WIDE);
    facts.style.minHeight = "";
    flow.fit(stage.clientWidth);
    show(context.model.get("position"));
  });
  player.follow();
  watch.observe(root);
  player.stops.push(() => watch.disconnect());
  return end;
}

export default { render: inView(render) };
