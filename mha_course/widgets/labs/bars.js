// Bars with a name and a number each. Those that are a control can be dragged, or moved with keys.

import { apart, clamp, hasModifier, setAttributes, short, svg, visible } from "../dom.js";

/** Write a number with two decimals; what rounds to 0 has no sign. */
export const figure = (number) => (number === null ? "NaN" : number.toFixed(2).replace(/^-(0\.00)$/, "$1"));

let pen = null; // a canvas that only measures words

function makePen() {
  const made = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family");
  made.font = `12px ${family || "system-ui, sans-serif"}`;
  return made;
}

/** Return how many pixels the longest of some words takes, and a gap. */
export function wide(words, most = 12) {
  pen ??= makePen();
  return Math.max(...words.map((one) => pen.measureText(short(one, most)).width)) + 8;
}

/** Write a word into a picture: shortened, with the whole of it to be read on hovering. */
export function word(text, attributes, most = 12) {
  const node = svg("text", attributes, short(text, most));
  if (text.length > most) node.append(svg("title", {}, visible(text)));
  return node;
}

/** Where a value lies on a scale, in pixels; beyond the ends of the scale, at the end. */
const placeOn = ({ left, room, low, high }, value) => left + ((clamp(value, low, high) - low) / (high - low)) * room;

/** Return where a key moves a bar, or NaN if it is no key of ours. */
export function goalOf(key, now, { low, high }) {
  const step = (high - low) / 20;
  const steps = {
    ArrowRight: step,
    ArrowUp: step,
    ArrowLeft: -step,
    ArrowDown: -step,
    PageUp: 5 * step,
    PageDown: -5 * step,
  };
  return { Home: low, End: high }[key] ?? now + steps[key];
}

function makeRow(name, middle, thick, left, drag) {
  const track = svg("rect", { x: left, y: middle - thick / 2, height: thick, class: "track" });
  const bar = svg("rect", { y: middle - thick / 2, height: thick, class: "bar" });
  const grip = svg("rect", { y: middle - thick / 2 - 1, width: 7, height: thick + 2, rx: 3, class: "grip" });
  const number = svg("text", { y: middle + 4, class: "number" });
  const title = word(name, { x: left - 6, y: middle + 4, class: "word" });
  const row = svg("g", { class: "row" }, track, bar, ...(drag ? [grip] : []), title, number);
  if (drag) setAttributes(row, { role: "slider", tabindex: 0, "aria-label": `${apart(name)}, ${drag}` });
  return { name, row, track, bar, grip, number };
}

function showRow({ name, row, bar, grip, number }, value, scale, drag) {
  const [from, end] = [placeOn(scale, 0), placeOn(scale, value ?? 0)];
  const width = Math.max(Math.abs(end - from), value ? 1 : 0); // a small number is not nothing
  setAttributes(bar, { x: Math.min(from, end), width });
  grip.setAttribute("x", end - 3);
  number.setAttribute("x", Math.max(from, end) + (drag ? 7 : 5));
  number.textContent = figure(value);
  if (!drag) return;
  const range = { "aria-valuemin": scale.low, "aria-valuemax": scale.high, "aria-valuenow": value ?? 0 };
  setAttributes(row, { ...range, "aria-valuetext": `${apart(name)} ${figure(value)}` });
}

/** Let a row be dragged and moved with keys; `to` is called with the value. */
function holdRow(row, root, scale, to) {
  const follow = (event) => {
    const x = event.clientX - root.getBoundingClientRect().left;
    to(scale.low + ((x - scale.left) / scale.room) * (scale.high - scale.low));
  };
  row.addEventListener("pointerdown", (event) => {
    row.setPointerCapture(event.pointerId);
    row.focus();
    follow(event);
  });
  row.addEventListener("pointermove", (event) => row.hasPointerCapture(event.pointerId) && follow(event));
  row.addEventListener("keydown", (event) => {
    const goal = goalOf(event.key, Number(row.getAttribute("aria-valuenow")), scale);
    if (Number.isNaN(goal) || hasModifier(event)) return;
    event.preventDefault();
    to(goal);
  });
}

const SHORTEST = 60; // pixels of the longest bar
/** Return how many pixels the numbers beside bars take; where they take few, so many that nothing moves with them. */
const beside = (values) => Math.max(44, wide(values.map(figure), 24) + 2);

export const leastOfBars = ({ names, values }) => wide(names) + SHORTEST + beside(values);

export function bars(panel, { width, move, idle }) {
  const { names, drag } = panel;
  const left = wide(names);
  const tall = drag ? 28 : 21; // a finger must hit it
  const height = names.length * tall + 6;
  let taken = 0; // by the numbers: what was needed once stays
  const scale = { left, room: 0, low: panel.low, high: panel.high };
  const root = svg("svg", { width, height, class: `bars${drag ? " drag" : ""}`, ...(drag ? {} : { role: "img" }) });
  const axis = svg("line", { y1: 0, y2: height, class: "axis" });
  const rows = names.map((name, i) => makeRow(name, (i + 0.5) * tall + 2, tall - 5, left, drag));
  root.append(...rows.map(({ row }) => row), axis);
  let held = {}; // what was moved and is not answered yet

  /** Move one bar; the kernel decides what becomes of the others, hence null for them. */
  function to(i, value) {
    held[i] = clamp(Math.round(value * 100) / 100, scale.low, scale.high);
    showRow(rows[i], held[i], scale, drag);
    move(
      drag,
      names.map((_, n) => (n === i ? held[i] : null)),
    );
  }
  if (drag) rows.forEach(({ row }, i) => holdRow(row, root, scale, (value) => to(i, value)));

  function update(now) {
    taken = Math.max(taken, beside(now.values));
    Object.assign(scale, { low: now.low, high: now.high, room: Math.max(SHORTEST, width - left - taken) });
    for (const { track } of rows) track.setAttribute("width", scale.room);
    if (idle()) held = {};
    setAttributes(axis, { x1: placeOn(scale, 0), x2: placeOn(scale, 0) });
    now.values.forEach((value, i) => {
      rows[i].row.classList.toggle("lit", now.lit.includes(i));
      showRow(rows[i], held[i] ?? value, scale, drag);
    });
    const spoken = names.map((name, i) => `${apart(name)} ${figure(now.values[i])}`).join(", ");
    if (!drag) root.setAttribute("aria-label", `${now.title}: ${spoken}`);
  }
  update(panel);
  return { node: root, update };
}
