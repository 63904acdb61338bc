// Bars with a name and a number each. Those that are a control can be dragged, or moved with keys.

import { short, svg } from "../dom.js";

export const figure = (number) => (number === null ? "NaN" : number.toFixed(2).replace(/^-(0\.00)$/, "$1"));
const pen = document.createElement("canvas").getContext("2d");

/** Return how many pixels the longest of some words takes, and a gap. */
export function wide(words, most = 12) {
  const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family");
  pen.font = `12px ${family || "system-ui, sans-serif"}`;
  return Math.max(...words.map((one) => pen.measureText(short(one, most)).width)) + 8;
}

/** Write a word into a picture: shortened, with the whole of it to be read on hovering. */
export function word(text, attributes, most = 12) {
  const node = svg("text", attributes, short(text, most));
  if (text.length > most) node.append(svg("title", {}, text));
  return node;
}

export function bars(panel, { width, move, idle }) {
  const [{ names, drag }, left] = [panel, wide(panel.names)];
  const room = Math.max(60, width - left - 44);
  const tall = drag ? 28 : 21; // a finger must hit it
  const thick = tall - 5;
  const height = names.length * tall + 6;
  const root = svg("svg", { width, height, class: `bars${drag ? " drag" : ""}` });
  if (!drag) Object.entries({ role: "img", "aria-label": panel.title }).forEach(([key, to]) => root.setAttribute(key, to));
  let [low, high, held] = [panel.low, panel.high, {}];
  const place = (value) => left + ((value - low) / (high - low)) * room;
  const clamp = (value) => Math.max(low, Math.min(high, Math.round(value * 100) / 100));
  const axis = svg("line", { y1: 0, y2: height, class: "axis" });

  const rows = names.map((name, i) => {
    const middle = (i + 0.5) * tall + 2;
    const track = svg("rect", { x: left, y: middle - thick / 2, width: room, height: thick, class: "track" });
    const bar = svg("rect", { y: middle - thick / 2, height: thick, class: "bar" });
    const grip = svg("rect", { y: middle - thick / 2 - 1, width: 7, height: thick + 2, rx: 3, class: "grip" });
    const number = svg("text", { y: middle + 4, class: "number" });
    const text = word(name, { x: left - 6, y: middle + 4, class: "word" });
    const row = svg("g", { class: "row" }, track, bar, ...(drag ? [grip] : []), text, number);
    if (drag) hold(row, i);
    root.append(row);
    return { row, bar, grip, number };
  });
  root.append(axis);

  /** Move one bar; the kernel decides what becomes of the others, hence null for them. */
  function to(i, value) {
    held[i] = clamp(value);
    show(i, held[i]);
    move(drag, names.map((_, n) => (n === i ? held[i] : null)));
  }

  function hold(row, i) {
    const follow = (event) => to(i, low + ((event.clientX - root.getBoundingClientRect().left - left) / room) * (high - low));
    Object.entries({ role: "slider", tabindex: 0, "aria-label": `${names[i]}, ${drag}` }).forEach((pair) => row.setAttribute(...pair));
    row.addEventListener("pointerdown", (event) => {
      row.setPointerCapture(event.pointerId);
      row.focus();
      follow(event);
    });
    row.addEventListener("pointermove", (event) => row.hasPointerCapture(event.pointerId) && follow(event));
    row.addEventListener("keydown", (event) => {
      const [step, now] = [(high - low) / 20, Number(row.getAttribute("aria-valuenow"))];
      const steps = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step, PageUp: 5 * step, PageDown: -5 * step };
      const goal = { Home: low, End: high }[event.key] ?? now + steps[event.key];
      if (Number.isNaN(goal) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      to(i, goal);
    });
  }

  function show(i, value) {
    const { row, bar, grip, number } = rows[i];
    const [from, end] = [place(Math.max(low, Math.min(high, 0))), place(Math.max(low, Math.min(high, value ?? 0)))];
    bar.setAttribute("x", Math.min(from, end));
    bar.setAttribute("width", Math.max(Math.abs(end - from), value ? 1 : 0));
    grip.setAttribute("x", end - 3);
    number.setAttribute("x", Math.max(from, end) + (drag ? 7 : 5));
    number.textContent = figure(value);
    if (!drag) return;
    row.setAttribute("aria-valuemin", low);
    row.setAttribute("aria-valuemax", high);
    row.setAttribute("aria-valuenow", value ?? 0);
    row.setAttribute("aria-valuetext", `${names[i]} ${figure(value)}`);
  }

  function update(now) {
    [low, high] = [now.low, now.high];
    if (idle()) held = {};
    axis.setAttribute("x1", place(Math.max(low, Math.min(high, 0))));
    axis.setAttribute("x2", place(Math.max(low, Math.min(high, 0))));
    now.values.forEach((value, i) => {
      rows[i].row.classList.toggle("lit", now.lit.includes(i));
      show(i, held[i] ?? value);
    });
    if (!drag) root.setAttribute("aria-label", `${now.title}: ${names.map((name, i) => `${name} ${figure(now.values[i])}`).join(", ")}`);
  }
  update(panel);
  return { node: root, update };
}
