// Builds the controls of a lab from their description. Each returns its node and how to show a value.

import { make } from "../dom.js";

function slider({ name, label, words }, move) {
  const range = Object.assign(make("input", ""), { type: "range", min: 0, max: words.length - 1, step: 1 });
  const output = make("output", "");
  output.style.minWidth = `${Math.max(...words.map((one) => one.length)) + 0.5}ch`;
  range.dataset.control = name;
  range.addEventListener("input", () => {
    show(Number(range.value));
    move(name, Number(range.value));
  });
  function show(value) {
    range.value = value;
    output.textContent = words[value];
    range.setAttribute("aria-valuetext", words[value]);
  }
  return { node: make("label", "control", make("span", "", label), range, output), show };
}

function choice({ name, label, words }, move, own) {
  const group = `${name}-${own}`; // radio buttons of one name are one choice in the whole page, over all labs of it
  const buttons = words.map((one, i) => {
    const radio = Object.assign(make("input", ""), { type: "radio", name: group });
    radio.dataset.control = name;
    radio.addEventListener("change", () => move(name, i));
    return [radio, make("label", "button", radio, make("span", "", one))];
  });
  const node = make("fieldset", "control", make("legend", "", label), make("span", "buttons", ...buttons.map(([, button]) => button)));
  const show = (value) => buttons.forEach(([radio], i) => (radio.checked = i === value));
  return { node, show };
}

function menu({ name, label, words }, move) {
  const select = make("select", "", ...words.map((one, i) => Object.assign(make("option", "", one), { value: i })));
  select.dataset.control = name;
  select.addEventListener("change", () => move(name, select.selectedIndex));
  return { node: make("label", "control", make("span", "", label), select), show: (value) => (select.selectedIndex = value) };
}

function switched({ name, label }, move) {
  const box = Object.assign(make("input", ""), { type: "checkbox" });
  box.dataset.control = name;
  box.addEventListener("change", () => move(name, box.checked));
  return { node: make("label", "control whole", box, make("span", "", label)), show: (value) => (box.checked = value) };
}

export const CONTROLS = { slider, choice, menu, switch: switched };
