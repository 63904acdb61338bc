// Controls, built from what controls.py says of them, and the queue in which what they ask goes to the kernel.
// A control is its node, and how to show and to read its value.

import { make, short } from "./dom.js";

/** Make a slider: where a value has its place, which value a place has, and how that is written. */
function makeRange(attributes, place, valueAt, words, moved) {
  const [range, output] = [
    Object.assign(make("input"), { type: "range", ...attributes }),
    make("output"),
  ];
  const read = () => valueAt(Number(range.value));
  function write() {
    output.textContent = words(read());
    range.setAttribute("aria-valuetext", output.textContent);
  }
  function show(value) {
    range.value = place(value);
    write();
  }
  range.addEventListener("input", () => {
    write();
    moved(read());
  });
  return { parts: [range, output], show, read };
}

const same = (value) => value;

const buildSlider = ({ words }, moved) => {
  const built = makeRange(
    { min: 0, max: words.length - 1, step: 1 },
    same,
    same,
    (at) => words[at],
    moved,
  );
  const longest = Math.max(...words.map((one) => one.length));
  built.parts[1].style.minWidth = `${longest + 0.5}ch`; // nothing moves when the word does
  return built;
};

const decimalsOf = (size) => (size >= 100 ? 0 : size >= 0.1 || !size ? 2 : 4);

/** A slider over all numbers between two ends. */
const buildNumber = ({ kind, start, low, high }, moved) => {
  const place = kind === "log" ? Math.log10 : same;
  const [min, max] = [place(low), place(high)];
  const step = kind === "whole" ? 1 : (max - min) / 200;
  const near = (at) => Math.abs(at - place(start)) <= step / 2; // it may lie between two steps
  const valueAt = (at) => (near(at) ? start : kind === "log" ? 10 ** at : at);
  const words = (value) =>
    kind === "whole" ? `${value}` : value.toFixed(decimalsOf(Math.abs(value)));
  return makeRange({ min, max, step }, place, valueAt, words, moved);
};

const buildChoice = ({ name, label, words }, moved, scope) => {
  // Radio buttons of one name are one choice in the whole page, over all pictures of it.
  const radios = words.map(() =>
    Object.assign(make("input"), { type: "radio", name: `${name}-${scope}` }),
  );
  radios.forEach((radio, i) => radio.addEventListener("change", () => moved(i)));
  const buttons = words.map((one, i) => make("label", "button", radios[i], make("span", "", one)));
  const node = make(
    "fieldset",
    "control choice",
    make("legend", "", label),
    make("span", "buttons", ...buttons),
  );
  const show = (value) => radios.forEach((radio, i) => (radio.checked = i === value));
  return { node, show, read: () => radios.findIndex((radio) => radio.checked) };
};

const buildMenu = ({ words }, moved) => {
  const select = make("select", "", ...words.map((one, i) => new Option(one, i)));
  select.dataset.lmSuppressShortcuts = true; // else JupyterLab takes its arrow keys
  select.addEventListener("change", () => moved(select.selectedIndex));
  return {
    parts: [select],
    show: (value) => (select.selectedIndex = value),
    read: () => select.selectedIndex,
  };
};

const buildToggle = ({ label }, moved) => {
  const box = Object.assign(make("input"), { type: "checkbox" });
  box.addEventListener("change", () => moved(box.checked));
  const node = make("label", "control toggle", box, make("span", "", label));
  return { node, show: (value) => (box.checked = value), read: () => box.checked };
};

const buildText = (_, moved) => {
  const field = Object.assign(make("input"), {
    type: "text",
    spellcheck: false,
    autocomplete: "off",
  });
  field.addEventListener("input", () => moved(field.value));
  const show = (value) => {
    if (field !== document.activeElement) field.value = value; // else an answer would undo what was typed meanwhile
  };
  return { parts: [field], show, read: () => field.value };
};

const BUILDERS = {
  slider: buildSlider,
  choice: buildChoice,
  menu: buildMenu,
  toggle: buildToggle,
  text: buildText,
  log: buildNumber,
  linear: buildNumber,
  whole: buildNumber,
};

/** Build a control; `moved(name, value)` is called whenever somebody moves it, and `scope` is a word of this picture's own. */
function makeControl(spec, moved, scope) {
  const words = spec.words?.map((word) => short(word, 60)); // which may be tokens
  const { parts, ...control } = BUILDERS[spec.kind](
    { ...spec, words },
    (value) => moved(spec.name, value),
    scope,
  );
  control.node ??= make("label", `control ${spec.kind}`, make("span", "", spec.label), ...parts);
  for (const input of control.node.querySelectorAll("input, select"))
    input.dataset.control = spec.name;
  if (spec.start !== undefined) control.show(spec.start);
  return control;
}

/** Build all controls that are not painted in the picture itself, by their names. */
export function makeControls(specs, moved, scope) {
  const built = specs.filter(({ kind }) => kind !== "painted");
  return new Map(built.map((spec) => [spec.name, makeControl(spec, moved, scope)]));
}

/** What is said, in all widgets, of a kernel that does not answer: nobody can tell one that is busy from one that is gone. */
export const GONE =
  "The kernel does not answer. If it is busy, wait; if it is gone, run the cell again.";
const PATIENCE = 3000; // milliseconds until a kernel that says nothing is said not to answer

/**
 * Ask the kernel one question at a time. What is asked meanwhile waits, the newest in the place of older ones, so that
 * a slow answer never piles up. `send` sends a question and returns by what its answer is known; `late` is called
 * where none came in time, and whatever is asked next goes out.
 */
export function makeQueue(send, late) {
  let [flying, waiting, timer] = [null, null, null];
  function pump() {
    if (flying !== null || waiting === null) return;
    const question = waiting;
    waiting = null;
    timer = setTimeout(() => {
      flying = null;
      late();
    }, PATIENCE);
    flying = send(question);
  }
  return {
    pump,
    waiting: () => waiting,
    idle: () => flying === null && waiting === null,
    ask(question) {
      waiting = question;
      pump();
    },
    /** Note an answer, and say whether it is the one that was waited for: an older one does not count. */
    landed(key) {
      if (flying === null || key !== flying) return false;
      clearTimeout(timer);
      flying = null;
      return true;
    },
    stop: () => clearTimeout(timer),
  };
}

/** Make a queue whose questions go to the kernel in a trait, each with the number by which its answer is known. */
export function makeAsker(model, trait, late, key = "number") {
  function send(question) {
    const number = (model.get(trait)[key] ?? 0) + 1;
    model.set(trait, { ...question, [key]: number });
    model.save_changes();
    return number;
  }
  return makeQueue(send, late);
}
