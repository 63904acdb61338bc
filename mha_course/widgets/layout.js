// A strip of memory, and the tensor as it is read from it. A view moves labels, a copy writes a second strip.
// Everything is drawn from the trait "data"; "position" is the frame that is shown.

const BAR = 17, INDEX = 15, HEAD = 22, PAD = 7, GAP = 10, BRACKET = 19, LABEL = 20; // pixels
const FLIGHT = 900, SPREAD = 900, WRITE = 2600, HOLD = 1900; // milliseconds

function make(tag, name, text, parent) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text != null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const at = ([x, y]) => `translate(${x}px, ${y}px)`;
const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

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
    for (let c = 0; last >= 0 && c < columns; c++) mark("index", x + left + c * unit, y + BAR, unit, INDEX, c);
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
      const before = out.marks.length;
      let [w, h] = boxes(level + 1, x + dx + PAD, y + dy + HEAD + PAD, room - 2 * PAD, start);
      if (dx && dx + w + 2 * PAD > room) { // begin a new row of boxes
        out.marks.length = before;
        dx = 0;
        dy += tall + GAP;
        tall = 0;
        [w, h] = boxes(level + 1, x + PAD, y + dy + HEAD + PAD, room - 2 * PAD, start);
      }
      const box = [w + 2 * PAD, h + HEAD + PAD * 2];
      mark("box", x + dx, y + dy, ...box, "", colors[level]);
      mark("name", x + dx, y + dy, box[0], HEAD, axes[level] === "?" ? `${i}` : `${axes[level]} = ${i}`, colors[level],
        axes[level] === "H" ? [start, start + size] : null);
      wide = Math.max(wide, dx + box[0]);
      tall = Math.max(tall, box[1]);
      dx += box[0] + GAP;
    }
    return [wide, dy + tall];
  }

  [out.width, out.height] = boxes(0, 0, 0, width, 0);
  return out;
}

/** The largest cells with which no frame grows wider than there is room, or needs more rows of boxes than it must. */
function fit(frames, width) {
  const shapes = (unit) => frames.map((frame) => arrange(frame, width, unit));
  const lines = (plans) => plans.map((p) => new Set(p.marks.filter((m) => m.kind === "name").map((m) => m.y)).size).join();
  let unit = 46, fewest = null;
  for (const small of [30, 26, 22, 18]) {
    const plans = shapes(small);
    if (plans.every((plan) => plan.width <= width) || small === 18) { fewest = [small, lines(plans)]; break; }
  }
  for (; unit > fewest[0]; unit -= 1) {
    const plans = shapes(unit);
    if (plans.every((plan) => plan.width <= width) && lines(plans) === fewest[1]) break;
  }
  return unit;
}

/** One trace: its steps, its strips, and the tensor as it is read now. */
function makeLane(lane, parent, go) {
  const node = make("section", "lane", null, parent);
  const crumbs = make("ol", "crumbs", null, node);
  const steps = lane.frames.map((frame, i) => {
    const step = make("button", `step ${frame.storage}`, null, make("li", "", null, crumbs));
    make("code", "", frame.call, step);
    if (i) make("span", "kind", { view: "view", copy: "copy", same: "same" }[frame.storage], step);
    step.title = frame.line;
    step.addEventListener("click", () => go(i));
    return step;
  });
  const sentence = make("p", "sentence", null, node);
  sentence.setAttribute("aria-live", "polite");
  const stage = make("div", "stage", null, node);
  const memory = make("div", "board", null, stage), reading = make("div", "reading", null, stage);
  const board = make("div", "board", null, stage);
  const warning = make("p", "warning", null, node);

  function makeCell(id, board) {
    const cell = make("div", "cell", null, board), { fill, tag } = lane.cells[id];
    cell.style.background = fill;
    cell.dataset.id = id;
    make("b", "", null, cell);
    make("small", "", tag, cell);
    return cell;
  }
  const write = (cell, place, strip, odd) => {
    const { tag, batch } = lane.cells[cell.dataset.id];
    cell.firstChild.textContent = place;
    cell.title = `place ${place} of strip ${strip + 1}${strip ? `, first at ${cell.dataset.id}` : ""}: ` +
      `${batch == null ? "" : `b${batch} `}${tag}`;
    cell.classList.toggle("odd", odd);
  };
  const strips = lane.strips.map((places, number) => {
    const label = make("div", "label", null, memory);
    const all = places.map(([place, id]) => {
      const cell = makeCell(id, memory);
      write(cell, place, number, false);
      if (number) cell.lastChild.textContent = `was ${id}`;
      return cell;
    });
    const batches = places.flatMap(([, id], i) => {
      const batch = lane.cells[id].batch;
      return lane.batches > 1 && (!i || batch !== lane.cells[places[i - 1][1]].batch) ? [[i, batch]] : [];
    });
    return { label, cells: all, ids: places.map(([, id]) => id), spots: [] };
  });
  const pool = new Map(); // grid cells, by number and how often it was read before
  const keys = lane.frames.map(({ ids }) => {
    const seen = {};
    return ids.map((id) => (id < 0 ? null : `${id}/${(seen[id] = (seen[id] ?? -1) + 1)}`));
  });
  keys.flat().forEach((key) => key && !pool.has(key) && pool.set(key, makeCell(parseInt(key), board)));
  let marks = [], spots = new Map(), plans = [], timers = [], shown = null, unit = 40;

  /** Put the strips below one another; return the height of the first n. */
  function putStrips(width) {
    const unitStrip = lane.frames[0].shape.at(-1) ?? 1, count = Math.max(...lane.strips.map((s) => s.length));
    let size = Math.min(unit, Math.floor(width / count)), across = count;
    if (size < 27) {
      size = Math.min(unit, 40);
      across = Math.max(1, Math.floor(width / size));
      if (across > unitStrip) across -= across % unitStrip;
    }
    memory.style.setProperty("--unit", `${size}px`);
    let y = 0;
    return strips.map((strip) => {
      strip.label.style.transform = at([0, y]);
      y += LABEL;
      strip.spots = strip.cells.map((_, i) => [(i % across) * size, y + Math.floor(i / across) * size]);
      strip.cells.forEach((cell, i) => { cell.style.transform = at(strip.spots[i]); });
      y += Math.ceil(strip.cells.length / across) * size + 8;
      return y;
    });
  }
  return { node, crumbs, steps, sentence };
}
