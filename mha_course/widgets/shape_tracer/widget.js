// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

import { make, product, short, svg } from "../dom.js";
import { describe, label, layout, margins, tensor, tokens } from "../tensor.js";
import { listing } from "./listing.js";

const PAUSE = 1400; // milliseconds between two steps that play by themselves
const MANY = 30; // steps, beyond which the timeline spells out only the stage it is in
const INPUT = 0.64; // inputs are drawn smaller than what is made of them
const WEIGHT = 0.42; // and parameters smaller still
const BESIDE = 480; // pixels from where on they stand side by side
const ORDERED = "reshape view flatten unflatten squeeze unsqueeze reshape_as view_as ravel".split(" ");
const STORAGE = {
  view: ["view: same memory", "a view of the same memory"],
  copy: ["copy: same numbers, new memory", "a copy"],
  same: ["same object: nothing moved", "the same object"],
  new: ["new: computed here", "new"],
};

function bytes(number) {
  if (number < 1000) return `${number} byte${number === 1 ? "" : "s"}`;
  const power = Math.min(4, Math.floor(Math.log10(number) / 3));
  return `${(number / 1000 ** power).toFixed(1)} ${["KB", "MB", "GB", "TB"][power - 1]}`;
}

const mark = (kind) => make("span", `mark ${kind}`);
const quiet = (text) => make("span", "quiet", text);

/** Return a box with a warning: "id: what happened". */
function box(title, whole) {
  const [, id, text] = /^([\w-]+(?: \([\w-]+\))?): ([^]*)$/.exec(whole) ?? ["", "", "", whole];
  const words = text || whole;
  const head = make("p", "", mark("warns"), make("b", "", title), " ", quiet(id));
  return make("div", "warning", head, make("p", "", words.charAt(0).toUpperCase() + words.slice(1)));
}

/** Return a tensor with its title and the chips of its shape, in order. */
function block(title, form, options) {
  const chips = form[0].map((_, i) => {
    const [chip, colours] = [make("span", "chip", label(form, i)), form[2][i]];
    const part = 100 / colours.length;
    const stops = colours.map((colour, n) => `${colour} ${n * part}% ${(n + 1) * part}%`);
    chip.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    return chip;
  });
  const shape = chips.length ? chips : [quiet("one number")];
  const head = [make("div", "title", ...title), make("div", "chips", ...shape)];
  return make("div", "block", ...head, tensor(form, options));
}

function render({ model, el }) {
  const { steps, forms, words, notes, failure } = model.get("data");
  const word = (number) => words[number] ?? "";
  const root = make("div", "mha-tracer");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Shapes, step by step. Arrow keys step, space plays, Home and End jump.");
  el.append(root);
  if (!steps.length) {
    root.append("No steps: nothing was called that makes a tensor.", ...(failure ? [box("Stopped", failure)] : []));
    return () => root.remove();
  }
  let [at, timer, saving, scale, room, free] = [-1, null, null, 1, 0, 0];

  function button(name, text, spoken, action) {
    const node = make("button", name, text);
    node.type = "button";
    node.setAttribute("aria-label", spoken);
    node.addEventListener("click", action);
    return node;
  }
  const back = button("", "◀\ufe0e Back", "Back", () => go(at - 1));
  const play = button("play", "▶\ufe0e Play", "Play", () => toggle());
  const next = button("", "Next ▶\ufe0e", "Next", () => go(at + 1));
  const range = make("input", "scrub");
  Object.assign(range, { type: "range", min: 0, max: steps.length - 1, value: 0 });
  range.setAttribute("aria-label", "Step");
  range.addEventListener("input", () => go(Number(range.value)));
  const [place, timeline, said] = [make("span", "place"), make("div", "timeline"), make("p", "said")];
  const [code, flow, facts] = [listing(model.get("data"), go), make("div", "flow"), make("div", "facts")];
  const stage = make("div", "stage", flow, facts);
  const body = make("div", "body", code.pane, stage);
  said.setAttribute("aria-live", "polite");
  timeline.classList.toggle("dense", steps.length > MANY);

  const legend = make("p", "note", "Dashed: a view, with no memory of its own.");
  if (forms.some((form) => tokens(form))) legend.prepend("Shade: the stronger the colour, the later the token. ");
  if (steps.some((step) => step.hidden)) legend.append(" ", mark("hides"), " copies that nobody wrote.");
  if (steps.some((step) => step.warning !== undefined)) legend.append(" ", mark("warns"), " warning.");
  const controls = make("div", "controls", back, play, next, range, place);
  root.append(controls, timeline, said, body, legend, ...notes.map((note) => make("p", "note", note)));

  const [pills, staged] = [[], steps.some((step) => step.stage !== undefined)];
  steps.forEach((step, i) => {
    const [op, name] = [word(step.op), word(step.stage)];
    if (!i || step.stage !== steps[i - 1].stage)
      timeline.append(make("div", "group", ...(staged ? [make("span", "part", name)] : []), make("div", "pills")));
    const stopped = failure && i === steps.length - 1;
    const warned = step.warning !== undefined || stopped;
    const spoken = `Step ${i + 1}: ${op}${warned ? ", warning" : ""}${step.hidden ? ", hidden copies" : ""}`;
    const pill = button(`pill ${word(step.storage)}`, short(op, 16), spoken, () => go(i));
    pill.tabIndex = -1;
    pill.title = `${i + 1}. ${op}${name && ` (${name})`}`;
    pill.append(...(warned ? [mark("warns")] : []), ...(step.hidden ? [mark("hides")] : []));
    timeline.lastChild.lastChild.append(pill);
    pills.push([pill, timeline.lastChild]);
  });

  /** Bring line and pill into view. All that is measured is measured first: the page is laid out once. */
  function settle(pill) {
    const [height, middle, top] = [flow.offsetHeight, pill.offsetLeft - timeline.clientWidth / 2, code.away()];
    flow.style.minHeight = `${height}px`; // what has been as high stays so: nothing below jumps
    if (top !== null) code.pane.lastChild.scrollTop = top;
    timeline.scrollLeft = middle;
  }

  /** Say at which scale a step fits. The trace has one scale, so that an axis stays as long as it is. */
  const fits = ({ form, inputs }) => {
    const beside = free >= BESIDE;
    const given = beside ? inputs.map(([, number]) => forms[number]) : [];
    const long = (one) => layout(one[1], 1).extent[0];
    const taken = beside ? 118 + Math.max(0, ...given.map(margins)) : 0;
    return (free - taken - margins(forms[form])) / (long(forms[form]) + INPUT * Math.max(0, ...given.map(long)));
  };

  function showTensors(step, i) {
    const own = Math.max(0.35, Math.min(scale, fits(step)));
    const made = forms[step.form];
    const from = step.inputs.length ? forms[step.inputs[0][1]] : null;
    const ordered = ORDERED.includes(word(step.op)) && from && product(from[1]) === product(made[1]);
    const [wide, narrow] = [from?.[1].at(-1), made[1].at(-1)];
    const every = (a, b) => (ordered && b < a && b > 0 && a % b === 0 ? b : undefined);
    const inputs = [make("div", "operands"), make("div", "operands")]; // tensors, parameters
    step.inputs.slice(0, 4).forEach(([source, number], n) => {
      const maker = steps[source];
      const name = maker ? word(maker.name) || word(maker.op) : source;
      const jump = () => (go(source), root.focus());
      const link = maker && button("link", short(name, 40), `${name}, go to step ${source + 1}`, jump);
      const title = maker ? [link, quiet(`step ${source + 1}`)] : [short(name, 40)];
      const parameter = n > 0 && !maker && forms[number][0].every((axis) => axis === "?");
      const options = { storage: "", every: n ? undefined : every(wide, narrow) };
      const size = own * (parameter ? WEIGHT : INPUT);
      inputs[Number(parameter)].append(block(title, forms[number], { ...options, scale: size }));
    });
    if (step.inputs.length > 4) inputs[0].append(quiet(`and ${step.inputs.length - 4} more`));
    const line = svg("path", { d: "M0 8H62M54 2l8 6-8 6" });
    const shaft = svg("svg", { viewBox: "0 0 64 16", class: "shaft", "aria-hidden": "true" }, line);
    const title = [short(word(step.name) || word(step.op), 40), quiet(`step ${i + 1}`)];
    const options = { scale: own, storage: word(step.storage), every: every(narrow, wide) };
    flow.replaceChildren(
      make("div", "inputs", ...inputs.filter((node) => node.hasChildNodes())),
      make("div", "arrow", make("b", "", short(word(step.op), 24)), shaft),
      block(title, made, { ...options, before: ordered ? from : undefined }),
    );
  }

  function showFacts(step, i) {
    const storage = word(step.storage);
    const list = `(${step.strides.join(", ")}${step.strides.length === 1 ? "," : ""})`;
    const strides = storage === "view" ? `, strides ${list}` : "";
    const row = [step.scattered ? "not contiguous" : "contiguous", bytes(step.bytes), word(step.kind)];
    if (step.flops) row.push(`${step.flops.toLocaleString("en")} FLOPs (multiply-add = 2)`);
    const badge = make("b", `badge ${storage}`, `${STORAGE[storage]?.[0] ?? storage}${strides}`);
    const rows = [make("div", "row", badge, ...row.map((text) => make("span", "", text)))];
    const copies = step.hidden === 1 ? "1 copy that nobody wrote" : `${step.hidden} copies that nobody wrote`;
    const why = storage === "copy" ? "no view can have this shape." : "numbers were laid out anew on the way.";
    if (step.hidden) rows.push(make("p", "", mark("hides"), ` ${copies}: ${why}`));
    if (step.note !== undefined) rows.push(make("p", "", word(step.note)));
    if (step.warning !== undefined) rows.push(box("Warning", word(step.warning)));
    if (failure && i === steps.length - 1) rows.push(box("Stopped after this step", failure));
    facts.replaceChildren(...rows);
  }

  /** Let the chips of the axes that stay wander from the input to the result. */
  function wander() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const before = [...(flow.querySelector(".inputs .block")?.querySelectorAll(".chip") ?? [])];
    const pairs = [...flow.lastChild.querySelectorAll(".chip")].map((chip) => {
      const from = before.find((other) => other.textContent === chip.textContent)?.getBoundingClientRect();
      return [chip, from, chip.getBoundingClientRect()];
    });
    for (const [chip, from, to] of pairs) {
      const start = from && `translate(${from.x - to.x}px, ${from.y - to.y}px)`;
      if (from) chip.animate([{ transform: start }, { transform: "none" }], { duration: 450, easing: "ease-in-out" });
    }
  }

  function show(i) {
    const [step, forward] = [steps[i], i === at + 1 && at >= 0];
    for (const node of pills[at] ?? []) node.classList.remove("now");
    for (const node of pills[i]) node.classList.add("now");
    at = i;
    range.value = i;
    place.textContent = `${i + 1} / ${steps.length}`;
    back.setAttribute("aria-disabled", i === 0);
    next.setAttribute("aria-disabled", i === steps.length - 1);
    const result = `${word(step.name) || "a tensor"} of shape ${describe(forms[step.form])}`;
    const kind = STORAGE[word(step.storage)]?.[1] ?? "";
    said.textContent = `Step ${i + 1} of ${steps.length}: ${word(step.op)} makes ${result}, ${kind}.`;
    body.classList.toggle("warned", step.warning !== undefined);
    showTensors(step, i);
    showFacts(step, i);
    code.light(step);
    if (forward) wander();
    settle(pills[i][0]);
  }

  function go(i) {
    const to = Math.max(0, Math.min(i, steps.length - 1));
    if (to === at) return;
    model.set("position", to);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), 150); // the kernel need not follow every step of a scrub
  }

  function toggle(on = timer === null) {
    clearInterval(timer);
    timer = on ? setInterval(() => (at < steps.length - 1 ? go(at + 1) : toggle(false)), PAUSE) : null;
    play.textContent = on ? "❚❚ Pause" : "▶\ufe0e Play";
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (on && at === steps.length - 1) go(0);
  }

  const follow = () => show(Math.max(0, Math.min(model.get("position"), steps.length - 1)));
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    root.classList.toggle("wide", room >= 720);
    free = stage.clientWidth;
    flow.classList.toggle("beside", free >= BESIDE);
    flow.style.minHeight = "";
    scale = Math.max(0.6, Math.min(1.5, ...steps.filter((step) => forms[step.form][0].length < 5).map(fits)));
    show(at);
  });
  const ends = { Home: () => go(0), End: () => go(steps.length - 1) };
  const keys = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), " ": () => toggle(), ...ends };
  root.addEventListener("keydown", (event) => {
    const pressed = event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
    if (event.ctrlKey || event.metaKey || event.altKey || !(pressed || Object.hasOwn(keys, event.key))) return;
    event.stopPropagation(); // else JupyterLab takes the key for a command
    if (pressed) return; // the button answers by itself
    event.preventDefault();
    keys[event.key]();
  });
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
