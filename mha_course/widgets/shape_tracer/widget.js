// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

import { clamp, hasModifier, make, makeButton, say } from "../dom.js";
import { describe, tokens } from "../tensor.js";
import { factsOf, makeMark, storageWords, warningBox } from "./facts.js";
import { Flow } from "./flow.js";
import { listing } from "./listing.js";
import { makeTimeline } from "./timeline.js";

const PAUSE = 1400; // milliseconds between two steps that play by themselves
const SAVED = 150; // until the kernel is told: it need not follow every step of a scrub
const WIDE = 720; // pixels from where on the code stands beside the tensors
const [PLAY, STOP] = ["▶\ufe0e Play", "❚❚ Pause"];

function makeLegend({ steps }) {
  const legend = make("p", "note", "Dashed: a view, with no memory of its own.");
  if (steps.some(({ form }) => tokens(form))) legend.prepend("Shade: the stronger the colour, the later the token. ");
  if (steps.some((step) => step.hidden_copies)) legend.append(" ", makeMark("hides"), " copies that nobody wrote.");
  if (steps.some((step) => step.warning)) legend.append(" ", makeMark("warns"), " warning.");
  return legend;
}

/** Answer to keys, and keep those that are answered from JupyterLab, which would take them for commands. */
function answerKeys(root, actions) {
  root.addEventListener("keydown", (event) => {
    const pressed = event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
    const scrolls = ["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(event.key);
    if (scrolls && event.target.matches(".lines")) event.stopPropagation(); // the browser scrolls
    if (hasModifier(event) || !(pressed || Object.hasOwn(actions, event.key))) return;
    event.stopPropagation();
    if (pressed) return; // the button answers by itself
    event.preventDefault();
    actions[event.key]();
  });
}

function render({ model, el }) {
  const data = model.get("data");
  const { steps, notes, failure } = data;
  const last = steps.length - 1;
  const root = make("div", "mha-tracer");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Shapes, step by step. Arrow keys step, space plays, Home and End jump.");
  el.append(root);
  if (!steps.length) {
    root.append("No steps: nothing was called that makes a tensor.", failure ? warningBox("Stopped", failure) : "");
    return () => root.remove();
  }
  let [at, timer, saving, room] = [-1, null, null, 0];

  const back = makeButton("", "◀\ufe0e Back", () => go(at - 1), "Back");
  const play = makeButton("play", PLAY, () => toggle(), "Play");
  const next = makeButton("", "Next ▶\ufe0e", () => go(at + 1), "Next");
  const range = Object.assign(make("input", "scrub"), { type: "range", min: 0, max: last, value: 0 });
  range.setAttribute("aria-label", "Step");
  range.addEventListener("input", () => go(Number(range.value)));
  const [place, spoken, facts] = [make("span", "place"), make("p", "said"), make("div", "facts")];
  spoken.setAttribute("aria-live", "polite");
  const timeline = makeTimeline(data, go);
  const code = listing(data, go);
  const flow = new Flow(data, (i) => {
    go(i);
    root.focus(); // the link that was clicked is gone
  });
  const stage = make("div", "stage", flow.node, facts);
  const body = make("div", "body", code.pane, stage);
  const controls = make("div", "controls", back, play, next, range, place);
  const remarks = notes.map((note) => make("p", "note", note));
  root.append(controls, timeline.node, spoken, body, makeLegend(data), ...remarks);

  /** Bring line and pill into view. All that is measured is measured first: the page is laid out once. */
  function scrollTo(pill) {
    const height = flow.node.offsetHeight;
    const middle = pill.offsetLeft - timeline.node.clientWidth / 2;
    const top = code.away();
    flow.node.style.minHeight = `${height}px`; // what has been as high stays so: nothing below jumps
    if (top !== null) code.pane.lastChild.scrollTop = top;
    timeline.node.scrollLeft = middle;
  }

  function show(i) {
    const [step, forward] = [steps[i], i === at + 1 && at >= 0];
    timeline.mark(i, at);
    at = i;
    range.value = i;
    place.textContent = `${i + 1} / ${steps.length}`;
    back.setAttribute("aria-disabled", i === 0);
    next.setAttribute("aria-disabled", i === last);
    const result = `${step.name || "a tensor"} of shape ${describe(step.form)}`;
    say(spoken, `Step ${i + 1} of ${steps.length}: ${step.op} makes ${result}, ${storageWords(step.storage)}.`);
    body.classList.toggle("warned", Boolean(step.warning));
    flow.show(step, i);
    facts.replaceChildren(...factsOf(step, i === last ? failure : null));
    code.light(step);
    if (forward) flow.wander();
    scrollTo(timeline.pill(i));
  }

  function go(i) {
    const to = clamp(i, 0, last);
    if (to === at) return;
    model.set("position", to);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), SAVED);
  }

  function toggle(on = timer === null) {
    clearInterval(timer);
    timer = on ? setInterval(() => (at < last ? go(at + 1) : toggle(false)), PAUSE) : null;
    play.textContent = on ? STOP : PLAY;
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (on && at === last) go(0);
  }

  const follow = () => show(clamp(model.get("position"), 0, last));
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    root.classList.toggle("wide", room >= WIDE);
    flow.fit(stage.clientWidth);
    show(at);
  });
  const ends = { Home: () => go(0), End: () => go(last) };
  answerKeys(root, { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), " ": () => toggle(), ...ends });
  model.on("change:position", follow);
  follow();
  watch.observe(root);
  return () => {
    toggle(false);
    clearTimeout(saving);
    watch.disconnect();
    model.off("change:position", follow);
    root.remove();
  };
}

export default { render };
