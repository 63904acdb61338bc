// Bars with a name and a number each. Those that are a control are sliders of the browser's own, drawn as bars.

import { isolateWord, clamp, make, short, visible } from "../dom.js";

/** Write a number with two decimals; what rounds to 0 has no sign. */
export const figure = (number) =>
  number === null ? "NaN" : number.toFixed(2).replace(/^-(0\.00)$/, "$1");

/** Write a word into a picture: shortened, with the whole of it to be read on hovering. */
export function word(text, name, most = 12) {
  const node = make("span", name, short(text, most));
  if (text.length > most) node.title = visible(text);
  return node;
}

/** Make the bar of a name; `to` is called with its value where it is dragged. */
function makeRow(name, drag, to) {
  const [bar, number, slider] = [make("i", "bar"), make("span", "number"), make("input")];
  Object.assign(slider, { type: "range", ariaLabel: `${isolateWord(name)}, ${drag}` });
  slider.addEventListener("input", () => to(Number(slider.value)));
  return {
    name,
    bar,
    number,
    slider,
    track: make("div", "track", bar, number, ...(drag ? [slider] : [])),
  };
}

function showRow({ name, bar, number, slider }, value, { low, high }) {
  const place = (at) => (100 * (clamp(at, low, high) - low)) / (high - low); // per cent of the track
  const [zero, end] = [place(0), place(value ?? 0)];
  const least = value ? "1px" : "0"; // a small number is not nothing
  Object.assign(bar.style, {
    left: `${Math.min(zero, end)}%`,
    width: `max(${least}, ${Math.abs(end - zero)}%)`,
  });
  number.style.left = `${Math.max(zero, end)}%`;
  number.textContent = figure(value);
  Object.assign(slider, { min: low, max: high, step: (high - low) / 100, value: value ?? 0 });
  slider.ariaValueText = `${isolateWord(name)} ${figure(value)}`;
  return zero;
}

export function bars(panel, { move, idle }) {
  const { names, drag } = panel;
  let [shown, held] = [panel, {}]; // what was moved and is not answered yet

  /** Move one bar; the kernel decides what becomes of the others, hence null for them. */
  function to(i, value) {
    held[i] = value;
    showRow(rows[i], value, shown);
    const moved = names.map((_, n) => (n === i ? value : null));
    move(drag, moved);
  }
  const rows = names.map((name, i) => makeRow(name, drag, (value) => to(i, value)));
  const node = make(
    "div",
    drag ? "rows drag" : "rows",
    ...rows.flatMap(({ name, track }) => [word(name, "word"), track]),
  );
  if (!drag) node.role = "img";

  function update(now) {
    shown = now;
    if (idle()) held = {};
    now.values.forEach((value, i) => {
      rows[i].track.classList.toggle("highlighted", now.highlighted.includes(i));
      node.style.setProperty("--zero", `${showRow(rows[i], held[i] ?? value, now)}%`);
    });
    const spoken = names
      .map((name, i) => `${isolateWord(name)} ${figure(now.values[i])}`)
      .join(", ");
    if (!drag) node.ariaLabel = `${now.title}: ${spoken}`;
  }
  update(panel);
  return { node, update };
}
