// Bars with a name and a number each.

import { isolateWord, clamp, make, short, visible } from "../dom.js";

const LONGEST = 12; // letters of a name

/** Write a number with two decimals; what rounds to 0 has no sign. */
export const figure = (number) =>
  number === null ? "NaN" : number.toFixed(2).replace(/^-(0\.00)$/, "$1");

/** Make a row: its name, shortened, with the whole of it to be read on hovering, and its bar. */
function makeRow(name) {
  const word = make("span", "word", short(name, LONGEST));
  if (name.length > LONGEST) word.title = visible(name);
  const bar = make("i", "bar");
  const number = make("span", "number");
  return { word, bar, number, track: make("div", "track", bar, number) };
}

/** Show a value in a row, and return where 0 is, in per cent of the track. */
function showRow({ bar, number }, value, { low, high }) {
  const place = (at) => (100 * (clamp(at, low, high) - low)) / (high - low);
  const zero = place(0);
  const end = place(value ?? 0);
  const least = value ? "1px" : "0px"; // a small number is not nothing; max() takes no bare 0
  bar.style.left = `${Math.min(zero, end)}%`;
  bar.style.width = `max(${least}, ${Math.abs(end - zero)}%)`;
  number.style.left = `${Math.max(zero, end)}%`;
  number.textContent = figure(value);
  return zero;
}

/** Draw a panel of bars; `tracks` are the nodes that hold them. */
export function bars(panel) {
  const rows = panel.names.map(makeRow);
  const node = make("div", "rows", ...rows.flatMap(({ word, track }) => [word, track]));
  node.role = "img";
  function update(now) {
    rows.forEach((row, i) => {
      row.track.classList.toggle("highlighted", now.highlighted.includes(i));
      node.style.setProperty("--zero", `${showRow(row, now.values[i], now)}%`);
    });
    const spoken = now.names.map((name, i) => `${isolateWord(name)} ${figure(now.values[i])}`);
    node.ariaLabel = `${now.title}: ${spoken.join(", ")}`;
  }
  update(panel);
  return { node, update, tracks: rows.map(({ track }) => track) };
}
