// Where the cells of a tensor are drawn. Python puts this file before layout.js.

const BAR = 17, INDEX = 15, HEAD = 22, PAD = 7, GAP = 10; // pixels
const LABEL = 20;

function make(tag, name, text, parent) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text != null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const at = ([x, y]) => `translate(${x}px, ${y}px)`;
const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

/** Write an index with its axis. */
const index = (axis, i) => (axis === "3" ? "qkv"[i] : axis === "?" || axis === "1" ? `${i}` : `${axis} = ${i}`);

/** Write numbers with their letter, neighbours as a span: t0–t3. */
function spans(numbers, letter) {
  const sorted = [...new Set(numbers)].filter((n) => n != null).sort((a, b) => a - b);
  const runs = sorted.reduce((all, n) => {
    if (all.length && all.at(-1).at(-1) === n - 1) all.at(-1).push(n);
    else all.push([n]);
    return all;
  }, []);
  return runs.map((run) => (run.length < 3 ? run.map((n) => letter + n).join(" ") : `${letter}${run[0]}–${letter}${run.at(-1)}`)).join(" ");
}

/** Where the cells and the names of a frame go: outer axes are boxes in boxes, the last two are rows and columns. */
function arrange(frame, width, unit) {
  const { shape, axes, colors, ids } = frame, last = shape.length - 1;
  const rows = last > 0 ? shape[last - 1] : 1, columns = last >= 0 ? shape[last] : 1;
  const left = last > 0 ? BAR + INDEX : 0, top = last >= 0 ? BAR + INDEX : 0;
  const out = { cells: [], marks: [] };
  const mark = (kind, x, y, w, h, text, color, span) => out.marks.push({ kind, x, y, w, h, text, color, span });
  const name = (axis, size) => (axes[axis] === "?" ? `${size}` : axes[axis]);

  function matrix(x, y, base) {
    if (last >= 0) mark("bar", x + left, y, columns * unit, BAR, name(last, columns), colors[last]);
    if (last > 0) mark("bar side", x, y + top, BAR, rows * unit, name(last - 1, rows), colors[last - 1]);
    const each = unit < 18 ? 4 : 1;
    for (let c = 0; last >= 0 && c < columns; c += each) mark("index", x + left + c * unit, y + BAR, unit, INDEX, c);
    for (let r = 0; r < rows; r++) {
      if (last > 0) mark("index", x + BAR, y + top + r * unit, INDEX, unit, r);
      for (let c = 0; c < columns; c++) out.cells[base + r * columns + c] = [x + left + c * unit, y + top + r * unit];
    }
    return [left + columns * unit, top + rows * unit];
  }

  function boxes(level, x, y, room, base) {
    if (level >= last - 1) return matrix(x, y, base);
    const size = product(shape.slice(level + 1));
    let dx = 0, dy = 0, wide = 0, tall = 0;
    for (let i = 0; i < shape[level]; i++) {
      const start = base + i * size;
      if (ids.slice(start, start + size).every((id) => id < 0)) continue;
      const before = out.marks.length, heads = axes[level] === "H", narrow = level + 2 >= last && left + columns * unit < 165;
      const head = heads && narrow ? HEAD + 16 : HEAD;
      let [w, h] = boxes(level + 1, x + dx + PAD, y + dy + head + PAD, room - 2 * PAD, start);
      if (dx && dx + w + 2 * PAD > room) { // begin a new row of boxes
        out.marks.length = before;
        dx = 0;
        dy += tall + GAP;
        tall = 0;
        [w, h] = boxes(level + 1, x + PAD, y + dy + head + PAD, room - 2 * PAD, start);
      }
      const box = [w + 2 * PAD, h + head + PAD * 2];
      mark("box", x + dx, y + dy, ...box, "", colors[level]);
      mark(head > HEAD ? "name tall" : "name", x + dx, y + dy, box[0], head, index(axes[level], i), colors[level],
        heads && [start, start + size]);
      wide = Math.max(wide, dx + box[0]);
      tall = Math.max(tall, box[1]);
      dx += box[0] + GAP;
    }
    return [wide, dy + tall];
  }

  [out.width, out.height] = boxes(0, 0, 0, width, 0);
  return out;
}

/** The largest cells that fit, or smaller ones where more boxes then stand in a row and all becomes lower. */
function fit(frames, width) {
  let best = null, fewest = Infinity;
  for (let unit = 46; unit >= 28; unit--) {
    const plans = frames.map((frame) => arrange(frame, width, unit)), height = Math.max(...plans.map((plan) => plan.height));
    const rows = plans.flatMap(({ marks }) => [...new Set(marks.filter(({ kind }) => kind === "box").map(({ y }) => y))]).length;
    if (rows >= fewest || plans.some((plan) => plan.width > width)) continue;
    fewest = rows;
    if (!best || height * 1.3 < best.height) best = { unit, height };
  }
  return best?.unit ?? 28;
}

/** Plan a frame in cells of this size, or in smaller ones where a row is too long. */
function plan(frame, width, unit) {
  const fitting = arrange(frame, width, unit);
  return fitting.width <= width || unit <= 11 ? { ...fitting, unit } : plan(frame, width, unit - 1);
}
