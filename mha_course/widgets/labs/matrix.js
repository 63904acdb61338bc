// A matrix of cells: coloured, hatched where hidden, painted where it is a control.

import { svg } from "../dom.js";
import { figure, wide, word } from "./bars.js";

const SLANT = 55; // degrees, of the names above the columns

/** Return the colour of a number between two ends of a ramp. */
function shade(ramp, value, low, high) {
  const share = (value - low) / (high - low || 1);
  return ramp[Math.round(Math.max(0, Math.min(1, share)) * (ramp.length - 1))];
}

/** Say whether black is easier to read on a colour than white. */
function pale(color) {
  const light = [1, 3, 5].map((at) => (parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179;
}

/** Say how the cells are laid out in so many pixels. */
function places({ rows, columns, size, rows_sum: sums }, width) {
  if (size !== "big") {
    const cell = Math.max(2, Math.min(size === "tiny" ? 24 : 14, Math.floor(((width - 2) / columns.length) * 2) / 2));
    return { left: 1, top: 1, cell, right: 1, bottom: 1 };
  }
  const [left, rise] = [wide(rows), wide(columns)];
  const right = Math.max(sums ? 42 : 4, Math.cos((SLANT / 180) * Math.PI) * wide(columns.slice(-2)) - 4);
  const cell = Math.max(5, Math.min(40, Math.max(23, 360 / rows.length), Math.floor((width - left - right) / columns.length)));
  return { left, top: Math.sin((SLANT / 180) * Math.PI) * rise + 12, cell, right, bottom: sums ? 34 : 2 };
}

export function matrix(panel, tools) {
  const { rows, columns, size, paint, pick } = panel;
  const at = places(panel, tools.width);
  const [wide_, high_] = [at.cell * columns.length, at.cell * rows.length];
  const [width, height] = [at.left + wide_ + at.right, at.top + high_ + at.bottom];
  const root = svg("svg", { width, height, class: `matrix ${size}${paint ? " paint" : ""}${pick ? " pick" : ""}` });
  const big = size === "big";
  const written = big && at.cell >= 30 && panel.palette !== "bool";
  let [now, cursor, brush] = [panel, [0, 0], null];
  const ramp = tools.palettes[panel.palette];
  const [sheet, veil] = [svg("g", {}), svg("g", {})]; // colours, and what lies on them
  root.append(sheet, veil);
  const cells = rows.map((_, i) => columns.map((_, j) => cell(i, j)));
  const ring = svg("rect", { width: at.cell, height: at.cell, class: "ring" });
  const lit = svg("rect", { x: at.left, width: wide_, height: at.cell, class: "chosen" });
  const frame = svg("rect", { x: at.left, y: at.top, width: wide_, height: high_, class: "frame" });
  root.append(frame);
  const sums = big && panel.rows_sum ? names() && totals() : big && names() && null;
  if (big) root.append(ring);
  if (pick) root.append(lit);

  function cell(i, j) {
    const box = { x: at.left + j * at.cell, y: at.top + i * at.cell, width: at.cell, height: at.cell };
    const fill = svg("rect", { ...box, class: "cell" });
    sheet.append(fill);
    return { box, fill, over: null, text: null, seen: "" };
  }

  /** Hatch a cell, or no longer. Most cells never are: what hatches one is made when it is needed. */
  function hatch(one, hidden, leaks) {
    if (!one.over && !hidden) return;
    one.over ??= veil.appendChild(svg("rect", one.box));
    one.over.setAttribute("class", `over${leaks ? " leaks" : ""}`);
    one.over.setAttribute("fill", `url(#${tools.hatch}-${leaks ? "bright" : "dim"})`);
    one.over.setAttribute("visibility", hidden ? "visible" : "hidden");
  }

  function write(one, words, look) {
    if (!one.text && !words) return;
    const { x, y } = one.box;
    one.text ??= veil.appendChild(svg("text", { x: x + at.cell / 2, y: y + at.cell / 2 + 4 }));
    one.text.setAttribute("class", `in ${look}`);
    one.text.textContent = words;
  }

  function names() {
    rows.forEach((name, i) => root.append(word(name, { x: at.left - 6, y: at.top + (i + 0.5) * at.cell + 4, class: "word" })));
    columns.forEach((name, j) => {
      const [x, y] = [at.left + (j + 0.5) * at.cell + 2, at.top - 5];
      root.append(word(name, { x, y, class: "over-column", transform: `rotate(${-SLANT} ${x} ${y})` }));
    });
    return true;
  }

  /** Write a sum at the end of each row and column. */
  function totals() {
    const beside = rows.map((_, i) => svg("text", { x: at.left + wide_ + 5, y: at.top + (i + 0.5) * at.cell + 4, class: "sum" }));
    const below = columns.map((_, j) => {
      const [x, y] = [at.left + (j + 0.5) * at.cell + 4, at.top + high_ + 4];
      return svg("text", { x, y, class: "sum under", transform: `rotate(90 ${x - 4} ${y}) translate(0 4)` });
    });
    root.append(...beside, ...below);
    return [beside, below];
  }

  const value = (i, j) => (paint ? (tools.value(paint)[i][j]) : now.values[i][j]);
  function describeCell(i, j) {
    const told = `${rows[i]} → ${columns[j]}`;
    if (now.on) return `${told}: ${value(i, j) ? now.on : now.off}`;
    return `${told} ${figure(value(i, j))}${now.hidden?.[i][j] ? ", hidden" : ""}`;
  }

  function show(i, j, number, hidden) {
    const [one, state] = [cells[i][j], `${number} ${hidden}`];
    if (state === one.seen) return; // most cells stay as they are: leave them alone
    one.seen = state;
    const empty = ramp && (number === null || (hidden && number === 0));
    const look = ramp ? (empty ? " empty" : "") : number ? " yes" : " no";
    one.fill.setAttribute("class", `cell${look}`);
    const color = ramp && !empty ? shade(ramp, number, now.low, now.high) : "none";
    if (ramp) one.fill.setAttribute("fill", color);
    hatch(one, hidden, Boolean(hidden && ramp && number)); // a weight where there must be none
    if (number === null) write(one, at.cell >= 22 ? "NaN" : "×", "none");
    else write(one, written && !empty ? figure(number).replace("0.", ".") : "", pale(color) ? "dark" : "");
  }

  function update(next) {
    now = next;
    rows.forEach((_, i) => columns.forEach((_, j) => show(i, j, value(i, j), paint ? !value(i, j) : Boolean(now.hidden?.[i][j]))));
    if (sums) [now.rows_sum, now.columns_sum].forEach((all, k) => all.forEach((total, i) => (sums[k][i].textContent = total)));
    if (pick) lit.setAttribute("y", at.top + now.lit * at.cell);
    const keys = big ? ` Arrow keys walk${paint ? ", space paints, shift with an arrow key paints on" : ""}.` : "";
    root.setAttribute("aria-label", `${now.title}. ${rows.length} rows, ${columns.length} columns.${keys}`);
  }

  function go(i, j, spoken = true) {
    cursor = [Math.max(0, Math.min(rows.length - 1, i)), Math.max(0, Math.min(columns.length - 1, j))];
    ring.setAttribute("x", at.left + cursor[1] * at.cell);
    ring.setAttribute("y", at.top + cursor[0] * at.cell);
    tools.read(describeCell(...cursor), spoken);
  }

  function put(i, j, number) {
    const mask = tools.value(paint);
    if (mask[i][j] === number) return;
    const next = mask.map((row) => [...row]);
    next[i][j] = number;
    tools.move(paint, next);
    show(i, j, number, !number);
    go(i, j);
  }

  function under(event) {
    const box = root.getBoundingClientRect();
    const [i, j] = [Math.floor((event.clientY - box.top - at.top) / at.cell), Math.floor((event.clientX - box.left - at.left) / at.cell)];
    return i >= 0 && j >= 0 && i < rows.length && j < columns.length ? [i, j] : null;
  }

  if (big) {
    root.setAttribute("tabindex", 0);
    root.setAttribute("role", "application");
    root.setAttribute("aria-roledescription", "matrix");
    root.addEventListener("pointerdown", (event) => {
      const found = under(event);
      if (!found) return;
      root.focus({ preventScroll: true });
      go(...found);
      if (pick) tools.move(pick, found[0]);
      if (!paint) return;
      root.setPointerCapture(event.pointerId);
      brush = 1 - value(...found);
      put(...found, brush);
    });
    root.addEventListener("pointermove", (event) => {
      const found = under(event);
      if (!found) return;
      if (brush !== null) put(...found, brush);
      else tools.read(describeCell(...found), false);
    });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) root.addEventListener(end, () => (brush = null));
    root.addEventListener("pointerleave", () => (root.matches(":focus") ? go(...cursor, false) : tools.read("", false)));
    root.addEventListener("focus", () => go(...cursor));
    root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [i, j] = cursor;
      const ways = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], Home: [i, 0], End: [i, columns.length - 1] };
      const presses = [" ", "Enter"].includes(event.key) && !event.shiftKey;
      if (!(event.key in ways) && !presses) return;
      event.preventDefault();
      const held = paint && value(i, j);
      if (event.key in ways) go(...ways[event.key]);
      if (paint && (presses || event.shiftKey)) put(...cursor, presses ? 1 - held : held);
      if (pick && cursor[0] !== now.lit) tools.move(pick, cursor[0]);
    });
    ring.setAttribute("x", at.left);
    ring.setAttribute("y", at.top);
  } else root.setAttribute("role", "img");
  update(panel);
  return { node: root, update };
}
