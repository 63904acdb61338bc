// Steps through a trace: the code on one side, the tensors that the step reads and makes on the other.

const SVG = "http://www.w3.org/2000/svg";
const INK = "#1f2430"; // on the colours of the axes
const PAUSE = 1300; // milliseconds between two steps that play by themselves
const MANY = 40; // steps, from where on the timeline spells out only the stage it is in
const TOKENS =
  /("""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(#.*)|\b(and|as|assert|class|def|elif|else|False|for|from|if|import|in|is|lambda|None|not|or|raise|return|self|True|while|with|yield)\b|\b(\d[\d.e]*)\b/g;

function make(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

function size(bytes) {
  const units = ["KB", "MB", "GB", "TB"];
  if (bytes < 1000) return count(bytes, "byte", "bytes");
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(1)} ${units[power - 1]}`;
}

// ---- tensors: the last two axes span a sheet of cells; earlier axes repeat it, by turns to the right and downwards ----

const side = (number) => Math.min(10 + 20 * Math.log2(Math.max(number, 1)), 200);

/** Where the copies along one axis begin, and whether some are left out before the last. */
function copies(number, length, gap, most) {
  const shown = Math.min(number, most);
  const left = number > shown;
  const places = Array.from({ length: shown }, (_, i) => i * (length + gap) + (left && i === shown - 1 ? 16 : 0));
  return { places, left, length: shown ? places.at(-1) + length : 0 };
}

function grid(columns, rows, width, height) {
  const lines = (number, length) => Math.min(number, Math.max(1, Math.floor(length / 3.5)));
  let path = "";
  for (let i = 1, n = lines(columns, width); i < n; i++) path += `M${(i * width) / n} 0v${height}`;
  for (let i = 1, n = lines(rows, height); i < n; i++) path += `M0 ${(i * height) / n}h${width}`;
  return path;
}

function slab([axes, sizes], storage, scale, paint) {
  const last = sizes.length - 1;
  const [columns, rows] = [sizes[last] ?? 1, sizes[last - 1] ?? 1];
  const shrink = scale * [1.25, 1.25, 1.25, 1, 0.72, 0.5][Math.min(sizes.length, 5)];
  const [width, height] = [side(columns) * shrink, side(rows) * shrink];
  let sheets = [[0, 0]];
  const extent = [width, height];
  const picture = svg("g", { class: `sheets ${storage}` });
  const bars = [];
  const dots = [];
  for (let axis = last - 2, level = 0; axis >= 0; axis--, level++) {
    const way = level % 2;
    const run = copies(sizes[axis], extent[way], 5 + 5 * level, level ? 3 : 4);
    sheets = run.places.flatMap((place) => sheets.map(([x, y]) => (way ? [x, y + place] : [x + place, y])));
    if (run.left) { const at = run.length - extent[way] - 13 ; dots.push(way ? [extent[0]/2, at, 0] : [at, extent[1]/2, 1]); }
    extent[way] = run.length;
    bars.push({ axis, way, level, length: run.length });
  }
  const tint = sizes.length > 2 ? paint(axes[last - 2])[0] : "currentColor";
  for (const [x, y] of sheets) {
    picture.append(svg("g", { transform: `translate(${x} ${y})` },
      svg("rect", { width, height, fill: tint, class: "paper" }),
      svg("path", { d: grid(columns, rows, width, height), class: "cells" }),
      svg("rect", { width, height, class: "edge" })));
  }
  for (const [x, y, way] of dots) picture.append(svg("text", { x, y: y+3, class: "dots" }, way ? "⋯" : "⋮"));
  const box = [-8, -8, extent[0] + 8, extent[1] + 8];
  const bar = (axis, [x, y], [dx, dy], chipAt) => {
    const colours = paint(axes[axis]);
    const words = `${short(axes[axis], 14)} ${sizes[axis]}`;
    const chip = words.length * 7 + 8;
    const [left, up] = chipAt(chip);
    picture.append(svg("path", { d: `M${x} ${y}l${dx} ${dy}`, class: "rim" }));
    colours.forEach((colour, i) => {
      const part = 1 / colours.length;
      picture.append(svg("path", { d: `M${x + i * part * dx} ${y + i * part * dy}l${dx * part} ${dy * part}`, stroke: colour, class: "bar" }));
      picture.append(svg("rect", { x: left + i * part * chip, y: up, width: chip * part, height: 18, fill: colour }));
    });
    picture.append(svg("rect", { x: left, y: up, width: chip, height: 18, class: "rim" }));
    picture.append(svg("text", { x: left + chip / 2, y: up + 13, fill: INK, class: "name" }, words));
    box[0] = Math.min(box[0], left - 2);
    box[1] = Math.min(box[1], up - 2);
    box[2] = Math.max(box[2], left + chip + 2);
    box[3] = Math.max(box[3], up + 20);
  };
  if (last >= 0) bar(last, [0, extent[1] + 6], [width, 0], (chip) => [Math.max(0,width / 2 - chip / 2), extent[1] + 12]);
  if (last >= 1) bar(last - 1, [-6, 0], [0, height], (chip) => [-12 - chip, height / 2 - 9]);
  for (const { axis, way, level, length } of bars) {
    const out = 6 + 28 * Math.floor(level / 2);
    if (way) bar(axis, [extent[0] + out, 0], [0, length], () => [extent[0] + out + 6, length / 2 - 9]);
    else bar(axis, [0, -out], [length, 0], (chip) => [length / 2 - chip / 2, -out - 24]);
  }
  const [w, h] = [box[2] - box[0], box[3] - box[1]];
  return svg("svg", { viewBox: `${box[0]} ${box[1]} ${w} ${h}`, width: w, height: h, "aria-hidden": "true" }, picture);
}

// ---- the widget ----

export default {
  render({ model, el }) {
    const data = model.get("data");
    const { steps, forms, sources } = data;
    const word = (number) => (number === undefined ? "" : data.words[number]);
    const form = (number) => forms[number];
    const paint = (axis) => axis.split("*").map((part) => data.colors[part]);
    const shape = ([axes, sizes]) => axes.map((axis, i) => `${axis} ${sizes[i]}`).join(", ") || "one number";

    const root = make("div", "mha-tracer");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Shapes step by step. Arrow keys step, space plays, Home and End jump.");
    el.append(root);
    if (!steps.length) {
      root.append(make("p", "", "No steps: the code called nothing of torch's that makes a tensor."));
      return () => root.remove();
    }

    let timer = null;
    let at = -1;
    let saving = null;

    const button = (text, label, action) => {
      const node = make("button", "", text);
      node.type = "button";
      node.setAttribute("aria-label", label);
      node.addEventListener("click", action);
      return node;
    };
    const back = button("◀ Back", "Back", () => go(at - 1));
    const play = button("▶ Play", "Play", () => toggle());
    const next = button("Next ▶", "Next", () => go(at + 1));
    const range = make("input", "scrub");
    Object.assign(range, { type: "range", min: 0, max: steps.length - 1, value: 0 });
    range.setAttribute("aria-label", "Step");
    range.addEventListener("input", () => go(Number(range.value)));
    const place = make("span", "place");
    const line = make("div", "timeline");
    const said = make("p", "said");
    said.setAttribute("aria-live", "polite");
    const code = make("div", "code");
    const flow = make("div", "flow");
    const facts = make("div", "facts");
    root.append(
      make("div", "controls", back, play, next, range, place), line, said,
      make("div", "body", code, make("div", "stage", flow, facts)),
      ...data.notes.map((note) => make("p", "note", note)),
    );

    // ---- timeline ----
    const pills = [];
    const groups = [];
    steps.forEach((step, i) => {
      const stage = word(step.stage);
      if (!i || stage !== groups.at(-1).stage) {
        const group = make("div", "group", make("span", "stage-name", stage || "other"), make("div", "pills"));
        groups.push({ stage, node: group });
        line.append(group);
      }
      const pill = button(short(word(step.op), 16), `Step ${i + 1}: ${word(step.op)}`, () => go(i));
      pill.tabIndex = -1;
      pill.className = `pill ${word(step.storage)}`;
      pill.title = `${i + 1}. ${word(step.op)}${stage ? ` (${stage})` : ""}`;
      if (step.warning !== undefined) pill.append(make("span", "mark warns"));
      if (step.hidden) pill.append(make("span", "mark hides"));
      groups.at(-1).node.lastChild.append(pill);
      pills.push({ node: pill, group: groups.at(-1).node });
    });
    line.classList.toggle("dense", steps.length > MANY);

    // ---- code ----
    let shown = null;
    let lit = null;
    const first = new Map();
    steps.forEach((step, i) => {
      const key = `${step.source}:${step.lineno}`;
      if (!first.has(key)) first.set(key, i);
    });

    function lines(source) {
      const rows = [make("code", "")];
      const put = (text, kind) =>
        text.split("\n").forEach((piece, i) => {
          if (i) rows.push(make("code", ""));
          if (piece) rows.at(-1).append(kind ? make("span", kind, piece) : piece);
        });
      let end = 0;
      for (const found of source.code.matchAll(TOKENS)) {
        put(source.code.slice(end, found.index), "");
        put(found[0], ["text", "remark", "word", "number"][found.slice(1).findIndex((group) => group !== undefined)]);
        end = found.index + found[0].length;
      }
      put(source.code.slice(end), "");
      return rows;
    }

    function showCode(step) {
      const key = step.source ?? `line ${step.line}`;
      if (key !== shown) {
        const source = step.source === null ? { name: "", first: step.lineno, code: word(step.line) } : sources[step.source];
        const rows = lines(source).map((text, i) => {
          const number = source.first + i;
          const row = make("div", "line", make("span", "number", String(number)), text);
          const target = first.get(`${step.source}:${number}`);
          if (target !== undefined) {
            row.classList.add("ran");
            row.addEventListener("click", () => go(target));
          }
          return row;
        });
        code.replaceChildren(make("div", "heading", source.name || "code"), make("div", "lines", ...rows));
        [shown, lit] = [key, null];
      }
      const list = code.lastChild;
      const row = list.children[step.source === null ? 0 : step.lineno - sources[step.source].first];
      lit?.classList.remove("lit");
      lit = row;
      if (!row) return;
      row.classList.add("lit");
      const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
      if (top < list.scrollTop + 20 || bottom > list.scrollTop + list.clientHeight - 20)
        list.scrollTop = top - list.clientHeight / 2;
    }

    // ---- tensors ----
    function chips([axes, sizes]) {
      return make("div", "chips", ...axes.map((axis, i) => {
        const chip = make("span", "chip", `${short(axis, 14)} ${sizes[i]}`);
        const colours = paint(axis);
        chip.style.background = `linear-gradient(90deg, ${colours.map((colour, n) =>
          `${colour} ${(100 * n) / colours.length}% ${(100 * (n + 1)) / colours.length}%`).join(", ")})`;
        return chip;
      }), axes.length ? "" : make("span", "quiet", "one number"));
    }

    function block(title, number, storage, scale) {
      return make("div", "block", make("div", "title", ...title), chips(form(number)), slab(form(number), storage, scale, paint));
    }

    function operand([source, number]) {
      const from = typeof source === "number" ? steps[source] : null;
      const title = from ? [word(from.name) || word(from.op), make("span", "quiet", `step ${source + 1}`)] : [source];
      return block(title, number, "", 0.62);
    }

    function showTensors(step, i) {
      const most = 4;
      const inputs = step.inputs.slice(0, most).map(operand);
      if (step.inputs.length > most) inputs.push(make("div", "quiet", `and ${step.inputs.length - most} more`));
      const arrow = make("div", "arrow", make("b", "", short(word(step.op), 24)), svg("svg", { viewBox: "0 0 64 16", class: "shaft", "aria-hidden": "true" }, svg("path", { d: "M0 8H58M50 2l8 6-8 6" })));
      flow.replaceChildren(make("div", "inputs", ...inputs), arrow, block([word(step.name) || "result"], step.form, word(step.storage), 1));
    }

    const memory = {
      view: (step) => `view: same memory, strides (${step.strides.join(", ")}${step.strides.length === 1 ? "," : ""})`,
      copy: () => "copy: the same numbers in new memory",
      same: () => "same object: nothing was done",
      new: () => "new: numbers that were computed",
    };

    function showFacts(step) {
      const fact = (name, value) => make("span", "fact", make("span", "quiet", name), " ", value);
      const storage = word(step.storage);
      const rows = [
        make("div", "row", make("b", `badge ${storage}`, memory[storage]?.(step) ?? storage), fact("", step.scattered ? "not contiguous" : "contiguous")),
        make("div", "row", fact("memory", size(step.bytes)), fact("type", word(step.kind)),
          step.flops ? fact("FLOPs", `${step.flops.toLocaleString("en")} (a multiply-add is 2)`) : ""),
      ];
      if (step.hidden) rows.push(make("div", "row", make("span", "mark hides"), count(step.hidden, "copy that nobody wrote", "copies that nobody wrote")));
      if (step.note !== undefined) rows.push(make("p", "note", word(step.note)));
      if (step.warning !== undefined) rows.push(make("div", "warning", make("b", "", make("span", "mark warns"), " Warning"), make("p", "", word(step.warning))));
      facts.replaceChildren(...rows);
    }

    function tell(step, i) {
      const kinds = { view: "a view of the same memory", copy: "a copy", same: "the same object", new: "new" };
      const name = word(step.name) || "a tensor";
      return `Step ${i + 1} of ${steps.length}: ${word(step.op)} makes ${name} of shape ${shape(form(step.form))}, ${kinds[word(step.storage)] ?? ""}.`;
    }

    function show(i) {
      const step = steps[i];
      const before = pills[at];
      before?.node.classList.remove("now");
      before?.group.classList.remove("now");
      at = i;
      const { node, group } = pills[i];
      node.classList.add("now");
      group.classList.add("now");
      range.value = i;
      place.textContent = `${i + 1} / ${steps.length}`;
      back.disabled = i === 0;
      next.disabled = i === steps.length - 1;
      said.textContent = tell(step, i);
      showCode(step);
      showTensors(step, i);
      showFacts(step);
      line.scrollLeft = node.offsetLeft - line.clientWidth / 2;
    }

    function go(i) {
      const to = Math.max(0, Math.min(i, steps.length - 1));
      if (to === at) return;
      model.set("position", to);
      clearTimeout(saving);
      saving = setTimeout(() => model.save_changes(), 150); // scrubbing need not tell the kernel of every step
    }

    function toggle(on = timer === null) {
      clearInterval(timer);
      timer = on ? setInterval(() => (at < steps.length - 1 ? go(at + 1) : toggle(false)), PAUSE) : null;
      play.textContent = on ? "⏸ Pause" : "▶ Play";
      play.setAttribute("aria-label", on ? "Pause" : "Play");
      if (on && at === steps.length - 1) go(0);
    }

    const keys = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(steps.length - 1), " ": () => toggle() };
    root.addEventListener("keydown", (event) => {
      const pressed = event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
      if (event.ctrlKey || event.metaKey || event.altKey || !(pressed || Object.hasOwn(keys, event.key))) return;
      event.stopPropagation();
      if (pressed) return;
      event.preventDefault();
      keys[event.key]();
    });

    const follow = () => show(Math.max(0, Math.min(model.get("position"), steps.length - 1)));
    const width = new ResizeObserver(([entry]) => root.classList.toggle("wide", entry.contentRect.width >= 720));
    width.observe(root);
    model.on("change:position", follow);
    follow();
    return () => {
      toggle(false);
      clearTimeout(saving);
      width.disconnect();
      model.off("change:position", follow);
      root.remove();
    };
  },
};
