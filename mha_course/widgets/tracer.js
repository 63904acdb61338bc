// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

const PAUSE = 1300; // milliseconds between two steps that play by themselves
const MANY = 30; // steps, beyond which the timeline spells out only the stage it is in
const INPUT = 0.64; // inputs are drawn smaller than what is made of them
const ORDERED = ["reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "reshape_as", "view_as", "ravel"];
const WORDS = "and as assert class def elif else False for from if import in is lambda None not or raise return True while with";
const TOKENS = new RegExp(
  `("""[^]*?"""|'''[^]*?'''|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*')|(#.*)|\\b(${WORDS.replaceAll(" ", "|")})\\b`, "g");
const STORAGE = {
  view: ["view: same memory", "a view of the same memory"],
  copy: ["copy: same numbers, new memory", "a copy"],
  same: ["same object: nothing moved", "the same object"],
  new: ["new: computed here", "new"],
};

function weight(bytes) {
  if (bytes < 1000) return `${bytes} byte${bytes === 1 ? "" : "s"}`;
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(1)} ${["KB", "MB", "GB", "TB"][power - 1]}`;
}

/** Cut code into lines, its texts, remarks and words of the language marked. */
function coloured(text) {
  const rows = [make("code", "")];
  const put = (piece, kind) => piece.split("\n").forEach((part, i) => {
    if (i) rows.push(make("code", ""));
    rows.at(-1).append(kind ? make("span", kind, part) : part);
  });
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    put(text.slice(end, found.index));
    put(found[0], found[1] ? "text" : found[2] ? "remark" : "word");
    end = found.index + found[0].length;
  }
  put(text.slice(end));
  return rows;
}

function render({ model, el }) {
  const { steps, forms, words, colors, sources, notes } = model.get("data");
  const word = (number) => words[number] ?? "";
  const paint = (axis) => axis.split("*").map((part) => colors[part]);
  const root = make("div", "mha-tracer");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Shapes, step by step. Arrow keys step, space plays, Home and End jump.");
  el.append(root);
  if (!steps.length) {
    root.append("No steps: the code called nothing of torch's that makes a tensor.");
    return () => root.remove();
  }
  let [at, timer, saving, scale, room, shown, lit] = [-1, null, null, 1, 0, null, null];

  function button(name, text, label, action) {
    const node = make("button", name, text);
    node.type = "button";
    node.setAttribute("aria-label", label);
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
  const [code, flow, facts] = [make("div", "code"), make("div", "flow"), make("div", "facts")];
  const stage = make("div", "stage", flow, facts);
  const body = make("div", "body", code, stage);
  said.setAttribute("aria-live", "polite");
  timeline.classList.toggle("dense", steps.length > MANY);
  const legend = "A darker shade is a later token. Dashed: a view, no memory of its own.";
  root.append(make("div", "controls", back, play, next, range, place), timeline, said, body,
    make("p", "note", legend), ...notes.map((note) => make("p", "note", note)));

  const [pills, firsts] = [[], new Map()];
  steps.forEach((step, i) => {
    const [op, name] = [word(step.op), word(step.stage)];
    if (!i || step.stage !== steps[i - 1].stage)
      timeline.append(make("div", "group", make("span", "part", name || "\u00a0"), make("div", "pills")));
    const group = timeline.lastChild;
    const marks = [step.warning !== undefined && "warning", step.hidden && "hidden copies"].filter(Boolean);
    const pill = button(`pill ${word(step.storage)}`, short(op, 16), [`Step ${i + 1}: ${op}`, ...marks].join(", "), () => go(i));
    pill.tabIndex = -1;
    pill.title = `${i + 1}. ${op}${name && ` (${name})`}`;
    pill.append(...marks.map((mark) => make("span", `mark ${mark === "warning" ? "warns" : "hides"}`)));
    group.lastChild.append(pill);
    pills.push([pill, group]);
    const key = `${step.source}:${step.lineno}`;
    if (!firsts.has(key)) firsts.set(key, i);
  });

  function showCode(step) {
    const alone = step.source === null;
    const source = alone ? { name: "line", first: step.lineno, code: word(step.line) } : sources[step.source];
    const key = alone ? `line ${step.line}` : step.source;
    if (key !== shown) {
      const rows = coloured(source.code).map((text, i) => {
        const target = firsts.get(`${step.source}:${source.first + i}`);
        const row = make("div", target === undefined ? "line" : "line ran", make("span", "number", `${source.first + i}`), text);
        if (target !== undefined) row.addEventListener("click", () => go(target));
        return row;
      });
      code.replaceChildren(make("div", "heading", source.name), make("div", "lines", ...rows));
      shown = key;
    }
    const list = code.lastChild;
    lit?.classList.remove("lit");
    lit = list.children[step.lineno - source.first];
    if (!lit) return;
    lit.classList.add("lit");
    const [top, bottom] = [lit.offsetTop, lit.offsetTop + lit.offsetHeight];
    const seen = top >= list.scrollTop + 20 && bottom <= list.scrollTop + list.clientHeight - 20;
    if (!seen) list.scrollTop = top - list.clientHeight / 2;
  }

  function block(title, form, options) {
    const chips = form[0].map((axis, i) => {
      const [chip, colours] = [make("span", "chip", `${short(axis, 14)} ${form[1][i]}`), paint(axis)];
      const stops = colours.map((colour, n) => `${colour} ${(100 * n) / colours.length}% ${(100 * (n + 1)) / colours.length}%`);
      chip.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
      return chip;
    });
    const shape = chips.length ? chips : [make("span", "quiet", "one number")];
    return make("div", "block", make("div", "title", ...title), make("div", "chips", ...shape), tensor(form, { paint, ...options }));
  }

  function showTensors(step, i) {
    const made = forms[step.form];
    const from = step.inputs.length ? forms[step.inputs[0][1]] : null;
    const ordered = ORDERED.includes(word(step.op)) && from && product(from[1]) === product(made[1]);
    const [wide, narrow] = [from?.[1].at(-1), made[1].at(-1)];
    const cut = (a, b) => (ordered && b < a && b > 0 && a % b === 0 ? b : undefined);
    const inputs = step.inputs.slice(0, 4).map(([source, form], n) => {
      const maker = steps[source];
      const name = maker ? word(maker.name) || word(maker.op) : short(`${source}`, 40);
      const link = () => [button("link", short(name, 40), `${name}, go to step ${source + 1}`, () => (go(source), root.focus())), make("span", "quiet", `step ${source + 1}`)];
      return block(maker ? link() : [name], forms[form], { scale: scale * INPUT, storage: "", every: n ? undefined : cut(wide, narrow) });
    });
    if (step.inputs.length > 4) inputs.push(make("div", "quiet", `and ${step.inputs.length - 4} more`));
    const shaft = svg("svg", { viewBox: "0 0 64 16", class: "shaft", "aria-hidden": "true" }, svg("path", { d: "M0 8H62M54 2l8 6-8 6" }));
    const title = [short(word(step.name) || word(step.op), 40), make("span", "quiet", `step ${i + 1}`)];
    const options = { scale, storage: word(step.storage), before: ordered ? from : undefined, every: cut(narrow, wide) };
    flow.replaceChildren(make("div", "inputs", ...inputs), make("div", "arrow", make("b", "", short(word(step.op), 24)), shaft), block(title, made, options));
  }

  function showFacts(step) {
    const storage = word(step.storage);
    const strides = storage === "view" ? `, strides (${step.strides.join(", ")}${step.strides.length === 1 ? "," : ""})` : "";
    const row = [step.scattered ? "not contiguous" : "contiguous", weight(step.bytes), word(step.kind)];
    if (step.flops) row.push(`${step.flops.toLocaleString("en")} FLOPs (multiply-add = 2)`);
    const rows = [make("div", "row", make("b", `badge ${storage}`, `${STORAGE[storage]?.[0] ?? storage}${strides}`), ...row.map((text) => make("span", "", text)))];
    const copies = step.hidden === 1 ? "1 copy that nobody wrote" : `${step.hidden} copies that nobody wrote`;
    if (step.hidden) rows.push(make("p", "", make("span", "mark hides"), `${copies}: numbers were laid out anew on the way.`));
    if (step.note !== undefined) rows.push(make("p", "", word(step.note)));
    if (step.warning !== undefined)
      rows.push(make("div", "warning", make("b", "", make("span", "mark warns"), "Warning"), make("p", "", word(step.warning))));
    facts.replaceChildren(...rows);
  }

  /** Let the chips of the axes that stay wander from the input to the result. */
  function wander() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const sources = [...(flow.firstChild.firstChild?.querySelectorAll(".chip") ?? [])];
    for (const chip of flow.lastChild.querySelectorAll(".chip")) {
      const from = sources.find((other) => other.textContent === chip.textContent)?.getBoundingClientRect();
      const to = chip.getBoundingClientRect();
      const start = from && `translate(${from.x - to.x}px, ${from.y - to.y}px)`;
      if (from) chip.animate([{ transform: start }, { transform: "none" }], { duration: 450, easing: "ease-in-out" });
    }
  }

  function show(i) {
    const [step, [pill, group], forward] = [steps[i], pills[i], i === at + 1 && at >= 0];
    for (const node of pills[at] ?? []) node.classList.remove("now");
    at = i;
    for (const node of [pill, group]) node.classList.add("now");
    range.value = i;
    place.textContent = `${i + 1} / ${steps.length}`;
    back.setAttribute("aria-disabled", i === 0);
    next.setAttribute("aria-disabled", i === steps.length - 1);
    const result = `${word(step.name) || "a tensor"} of shape ${describe(forms[step.form])}`;
    said.textContent = `Step ${i + 1} of ${steps.length}: ${word(step.op)} makes ${result}, ${STORAGE[word(step.storage)]?.[1] ?? ""}.`;
    body.classList.toggle("warned", step.warning !== undefined);
    showCode(step);
    showTensors(step, i);
    showFacts(step);
    timeline.scrollLeft = pill.offsetLeft - timeline.clientWidth / 2;
    if (forward) wander();
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

  /** Choose one scale for the whole trace, so that an axis is as long in every step. */
  function fit() {
    const [free, beside] = [stage.clientWidth, stage.clientWidth >= 560];
    flow.classList.toggle("beside", beside);
    const long = (form) => layout(forms[form][1], 1).extent[0];
    const most = Math.max(...steps.map((step) => {
      const inputs = beside ? INPUT * Math.max(0, ...step.inputs.map(([, form]) => long(form))) : 0;
      return inputs + long(step.form);
    }));
    scale = Math.max(0.5, Math.min(1.5, (free - (beside ? 300 : 100)) / most));
  }

  const follow = () => show(Math.max(0, Math.min(model.get("position"), steps.length - 1)));
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    root.classList.toggle("wide", room >= 720);
    fit();
    show(at);
  });
  const keys = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(steps.length - 1), " ": () => toggle() };
  root.addEventListener("keydown", (event) => {
    const pressed = event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
    if (event.ctrlKey || event.metaKey || event.altKey || !(pressed || Object.hasOwn(keys, event.key))) return;
    event.stopPropagation(); // else JupyterLab takes the key for a command
    if (pressed) return;
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
