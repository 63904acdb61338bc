// Where the cells of a tensor are drawn: numbers only, nothing of the page.

import { product } from "../dom.js";

const [BAR, INDEX, HEAD, PAD, GAP] = [17, 15, 22, 7, 10]; // pixels

/** Write a place for the style "transform". */
export const at = ([x, y]) => `translate(${x}px, ${y}px)`;

/** Write an index with its axis. */
export const index = (axis, i) => (axis === "3" ? "qkv"[i] : axis === "?" || axis === "1" ? `${i}` : `${axis} = ${i}`);

/** Write numbers with their letter, neighbours as a span: t0–t3. */
export function spans(numbers, letter) {
  const sorted = [...new Set(numbers)].filter((n) => n != null).sort((a, b) => a - b);
  const runs = sorted.reduce((all, n) => {
    if (all.length && all.at(-1).at(-1) === n - 1) all.at(-1).push(n);
    else all.push([n]);
    return all;
  }, []);
  return runs
    .map((run) => (run.length < 3 ? run.map((n) => letter + n).join(" ") : `${letter}${run[0]}–${letter}${run.at(-1)}`))
    .join(" ");
}

/** Where the cells and the names of a frame go: outer axes are boxes in boxes, the last two are rows and columns. */
export function arrange(frame, width, unit) {
  const { shape, axes, colors } = frame;
  const last = shape.length - 1;
  const [rows, columns] = [shape[last - 1] ?? 1, shape[last] ?? 1];
  const [left, top] = [last > 0 ? BAR + INDEX : 0, last >= 0 ? BAR + INDEX : 0];
  const [cells, marks] = [[], []];
  const mark = (kind, [x, y], [w, h], text, color, span) => marks.push({ kind, x, y, w, h, text, color, span });
  const name = (axis, size) => (axes[axis] === "?" ? `${size}` : axes[axis]);

  /** Name the last two axes, as far as there are two, and write their indices. */
  function nameMatrix(x, y) {
    if (last >= 0) mark("bar", [x + left, y], [columns * unit, BAR], name(last, columns), colors[last]);
    if (last > 0) mark("bar side", [x, y + top], [BAR, rows * unit], name(last - 1, rows), colors[last - 1]);
    const every = unit < 18 ? 4 : 1;
    for (let c = 0; last >= 0 && c < columns; c += every)
      mark("index", [x + left + c * unit, y + BAR], [unit, INDEX], c);
    for (let r = 0; last > 0 && r < rows; r++) mark("index", [x + BAR, y + top + r * unit], [INDEX, unit], r);
  }

  function matrix(x, y, base) {
    nameMatrix(x, y);
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < columns; c++) cells[base + r * columns + c] = [x + left + c * unit, y + top + r * unit];
    return [left + columns * unit, top + rows * unit];
  }

  /** How high the title of a box is: heads tell which tokens they hold, in a second line where they are narrow. */
  function headOf(level) {
    const narrow = level + 2 >= last && left + columns * unit < 165;
    return axes[level] === "H" && narrow ? HEAD + 16 : HEAD;
  }

  /** Put what an axis holds into boxes, row after row. Return how much room they take. */
  function boxes(level, x, y, room, base) {
    if (level >= last - 1) return matrix(x, y, base);
    const [size, head, heads] = [product(shape.slice(level + 1)), headOf(level), axes[level] === "H"];
    let [dx, dy, wide, tall] = [0, 0, 0, 0];
    for (let i = 0; i < shape[level]; i++) {
      const start = base + i * size;
      const before = marks.length;
      const inside = () => boxes(level + 1, x + dx + PAD, y + dy + head + PAD, room - 2 * PAD, start);
      let [w, h] = inside();
      if (dx && dx + w + 2 * PAD > room) {
        // begin a new row of boxes
        marks.length = before;
        [dx, dy, tall] = [0, dy + tall + GAP, 0];
        [w, h] = inside();
      }
      const box = [w + 2 * PAD, h + head + PAD * 2];
      mark("box", [x + dx, y + dy], box, "", colors[level]);
      const [kind, title] = [head > HEAD ? "name tall" : "name", index(axes[level], i)];
      mark(kind, [x + dx, y + dy], [box[0], head], title, colors[level], heads && [start, start + size]);
      wide = Math.max(wide, dx + box[0]);
      tall = Math.max(tall, box[1]);
      dx += box[0] + GAP;
    }
    return [wide, dy + tall];
  }

  const [wide, height] = boxes(0, 0, 0, width, 0);
  return { cells, marks, width: wide, height };
}

/** The largest cells that fit, or smaller ones where more boxes then stand in a row and all becomes lower. */
export function fit(frames, width) {
  let [best, fewest] = [null, Infinity];
  for (let unit = 46; unit >= 28; unit--) {
    const plans = frames.map((frame) => arrange(frame, width, unit));
    const height = Math.max(...plans.map((plan) => plan.height));
    const tops = ({ marks }) => new Set(marks.filter(({ kind }) => kind === "box").map(({ y }) => y));
    const rows = plans.reduce((sum, plan) => sum + tops(plan).size, 0);
    if (rows >= fewest || plans.some((plan) => plan.width > width)) continue;
    fewest = rows;
    if (!best || height * 1.3 < best.height) best = { unit, height };
  }
  return best?.unit ?? 28;
}

/** Plan a frame in cells of this size, or in smaller ones where a row is too long. */
export function plan(frame, width, unit) {
  const fitting = arrange(frame, width, unit);
  return fitting.width <= width || unit <= 11 ? { ...fitting, unit } : plan(frame, width, unit - 1);
}

/** How many cells of a strip stand in a row, and how large they are: rows of equal length, that end where one of the tensor does. */
export function planStrips({ strips, frames, cells }, width) {
  const count = Math.max(...strips.map((strip) => strip.length));
  const least = strips.flat().some(([place]) => place > 99) ? 28 : 24; // three digits
  const most = Math.max(1, Math.floor(width / least));
  const run = frames.map(({ shape }) => shape.at(-1) ?? 1).find((size) => size <= most) ?? 1;
  const even = Math.ceil(count / Math.ceil(count / most));
  const whole = Math.ceil(even / run) * run;
  const across = whole <= most ? whole : even;
  const unit = Math.min(46, Math.floor(width / Math.min(across, count)));
  const words = cells[strips[0][0][1]].whose.split(" ").length;
  const narrow = unit < 34 || words > 2;
  return { across, unit, narrow, tall: narrow ? 24 + 10 * Math.max(2, words) : 38 };
}
