// Controls, built from what controls.py says of them. A control is its node, and how to show its value.

/**
 * @typedef {object} ControlSpec What a control is built from.
 * @property {string} name
 * @property {string} label
 * @property {"slider"|"choice"|"menu"|"toggle"|"text"|"log"|"linear"|"whole"|"painted"} kind
 * @property {string[]} [words] How the values of a slider, a choice or a menu are written.
 * @property {number|string} [start] The value of a number or a text at the start.
 * @property {number} [low]
 * @property {number} [high]
 *
 * @typedef {object} Control
 * @property {HTMLElement} node
 * @property {(value: any) => void} show
 */

import { make, short } from "./dom.js";

const decimalsOf = (size) => (size >= 100 ? 0 : size >= 0.1 || !size ? 2 : 4);

/** A slider: over words, each with its place, or over all numbers between two ends. */
function buildRange({ kind, words, start = 0, low = 0, high = words.length - 1 }, moved) {
  const place = kind === "log" ? Math.log10 : Number;
  const [min, max] = [place(low), place(high)];
  const step = kind === "whole" || words ? 1 : (max - min) / 200;
  const range = make("input", { type: "range", min, max, step });
  const output = make("output");
  function read() {
    const at = Number(range.value);
    if (Math.abs(at - place(start)) <= step / 2) return start; // it may be between two steps
    return kind === "log" ? 10 ** at : at;
  }
  function write() {
    const value = read();
    if (words) output.textContent = words[value];
    else output.textContent = kind === "whole" ? value : value.toFixed(decimalsOf(Math.abs(value)));
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
  // Nothing shifts when the word changes.
  if (words) output.style.minWidth = `${Math.max(...words.map((word) => word.length)) + 0.5}ch`;
  return { parts: [range, output], show };
}

const buildChoice = ({ name, label, words }, moved, scope) => {
  // Radio buttons with the same name are one choice in the whole page, across pictures.
  const radios = words.map(() => make("input", { type: "radio", name: `${name}-${scope}` }));
  radios.forEach((radio, i) => radio.addEventListener("change", () => moved(i)));
  const labels = words.map((word, i) => make("label", "button", radios[i], make("span", "", word)));
  const buttons = make("span", "buttons", ...labels);
  const node = make("fieldset", "control choice", make("legend", "", label), buttons);
  const show = (value) => radios.forEach((radio, i) => (radio.checked = i === value));
  return { node, show };
};

const buildMenu = ({ words }, moved) => {
  const select = make("select", "", ...words.map((word, i) => new Option(word, i)));
  select.dataset.lmSuppressShortcuts = true; // else JupyterLab takes its arrow keys
  select.addEventListener("change", () => moved(select.selectedIndex));
  return { parts: [select], show: (value) => (select.selectedIndex = value) };
};

const buildToggle = ({ label }, moved) => {
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => moved(box.checked));
  const node = make("label", "control toggle", box, make("span", "", label));
  return { node, show: (value) => (box.checked = value) };
};

const buildText = (_, moved) => {
  const field = make("input", { type: "text", spellcheck: false, autocomplete: "off" });
  field.addEventListener("input", () => moved(field.value));
  field.addEventListener("keydown", ({ key }) => key === "Escape" && field.blur());
  const show = (value) => {
    if (field !== document.activeElement) field.value = value; // else an answer would undo what has been typed since
  };
  return { parts: [field], show };
};

const BUILDERS = {
  slider: buildRange,
  choice: buildChoice,
  menu: buildMenu,
  toggle: buildToggle,
  text: buildText,
  log: buildRange,
  linear: buildRange,
  whole: buildRange,
};

/** Build a control; `moved(name, value)` is called whenever it is moved, `scope` names this picture. */
function makeControl(spec, moved, scope) {
  const words = spec.words?.map((word) => short(word, 80)); // which may be tokens
  const report = (value) => moved(spec.name, value);
  const { parts, ...control } = BUILDERS[spec.kind]({ ...spec, words }, report, scope);
  control.node ??= make("label", `control ${spec.kind}`, make("span", "", spec.label), ...parts);
  for (const input of control.node.querySelectorAll("input, select"))
    input.dataset.control = spec.name;
  if (spec.start !== undefined) control.show(spec.start);
  return control;
}

/** Build all controls that are not painted in the picture itself, by their names. */
export function makeControls(specs, moved) {
  const scope = Math.random().toString(36).slice(2);
  const built = specs.filter(({ kind }) => kind !== "painted");
  return new Map(built.map((spec) => [spec.name, makeControl(spec, moved, scope)]));
}
