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
    if (!best || height * 1.15 < best.height) best = { unit, height };
  }
  return best?.unit ?? 28;
}

/** Plan a frame in cells of this size, or in smaller ones where a row is too long. */
function plan(frame, width, unit) {
  const fitting = arrange(frame, width, unit);
  return fitting.width <= width || unit <= 11 ? { ...fitting, unit } : plan(frame, width, unit - 1);
}

/** One trace: its steps, its strips of memory, and the tensor as it is read from one of them. */
function makeLane(lane, parent, go) {
  const node = make("section", "lane", null, parent), crumbs = make("ol", "crumbs", null, node);
  const steps = lane.frames.map(({ call, line, storage }, i) => {
    const step = make("button", `step ${storage}`, null, make("li", "", null, crumbs));
    make("code", "", call, step);
    if (i) make("span", "kind", storage, step);
    step.title = line;
    step.addEventListener("click", () => go(i));
    return step;
  });
  const sentence = make("p", "sentence", null, node);
  sentence.setAttribute("aria-live", "polite");
  const stage = make("div", "stage", null, node), warning = make("p", "warning", null, node);
  const memory = make("div", "board", null, stage), reading = make("div", "reading", null, stage);
  const board = make("div", "board", null, stage);
  const makeCell = (id, parent) => {
    const cell = make("div", "cell", null, parent);
    cell.style.backgroundColor = lane.cells[id].fill;
    cell.dataset.id = id;
    make("b", "", null, cell);
    make("small", "", lane.cells[id].tag, cell);
    return cell;
  };
  const write = (cell, place, strip, odd) => {
    const { tag, batch } = lane.cells[cell.dataset.id], first = strip ? `, first at ${cell.dataset.id}` : "";
    cell.firstChild.textContent = place;
    cell.title = `place ${place} of strip ${strip + 1}${first}: ${batch == null ? "" : `b${batch} `}${tag}`;
    cell.classList.toggle("odd", odd);
  };
  const strips = lane.strips.map((places, number) => ({
    label: make("div", "label", null, memory),
    cells: places.map(([place, id]) => {
      const cell = makeCell(id, memory);
      write(cell, place, number, false);
      if (number) cell.lastChild.textContent = `was ${id}`;
      return cell;
    }),
  }));
  const keys = lane.frames.map(({ ids }) => {
    const seen = {}; // a number may be read more than once
    return ids.map((id) => (id < 0 ? null : `${id}/${(seen[id] = (seen[id] ?? -1) + 1)}`));
  });
  const pool = new Map(keys.flat().filter(Boolean).map((key) => [key, null]));
  for (const key of pool.keys()) pool.set(key, makeCell(parseInt(key), board));
  let marks = [], spots = new Map(), plans = [], timer = null, shown = 0, depths = [];

  function putStrips(width) {
    const count = Math.max(...lane.strips.map((strip) => strip.length)), most = Math.max(1, Math.floor(width / (lane.strips.flat().some(([place]) => place > 99) ? 28 : 24)));
    const run = lane.frames.map(({ shape }) => shape.at(-1) ?? 1).find((size) => size <= most) ?? 1;
    const even = Math.ceil(count / Math.ceil(count / most));
    const across = Math.ceil(even / run) * run <= most ? Math.ceil(even / run) * run : even; // break after whole rows
    const wide = Math.min(46, Math.floor(width / Math.min(across, count))), tall = wide < 34 ? 44 : 38;
    memory.style.setProperty("--unit", `${wide}px`);
    memory.style.setProperty("--tall", `${tall}px`);
    memory.classList.toggle("narrow", wide < 34);
    let y = 0;
    depths = strips.map((strip) => {
      strip.label.style.transform = at([0, y]);
      strip.spots = strip.cells.map((_, i) => [(i % across) * wide, y + LABEL + Math.floor(i / across) * tall]);
      strip.cells.forEach((cell, i) => { cell.style.transform = at(strip.spots[i]); });
      y += LABEL + Math.ceil(strip.cells.length / across) * tall + GAP;
      return y;
    });
  }
  function resize(width, unit) {
    plans = lane.frames.map((frame) => plan(frame, width, unit));
    putStrips(width);
    show(shown, false);
    const tallest = Math.max(...plans.map(({ height }, i) => height + depths[lane.frames[i].strip])) + reading.offsetHeight;
    stage.style.minHeight = `${Math.min(tallest, 640)}px`; // so that little moves below
  }
  function say(frame, number) {
    steps.forEach((step, i) => step[i === number ? "setAttribute" : "removeAttribute"]("aria-current", "step"));
    if (sentence.textContent !== frame.sentence) sentence.textContent = frame.sentence;
    const texts = [frame.mixing && `${frame.mixing}.`, frame.warning].filter(Boolean);
    warning.textContent = texts.map((text) => `⚠ ${text[0].toUpperCase()}${text.slice(1)}`).join("\n");
    warning.hidden = !texts.length;
    strips.forEach(({ label, cells }, i) => {
      const what = i === frame.strip && frame.storage === "copy" ? "written anew" : number ? "unchanged, no number moved" : "";
      label.textContent = `memory${strips.length > 1 ? `, strip ${i + 1}` : ""}${what ? `: ${what}` : ""}`;
      for (const node of [label, ...cells]) node.hidden = i > frame.strip;
    });
    memory.style.height = `${depths[frame.strip]}px`;
  }
  function drawReading(frame) {
    strips.forEach(({ label, cells }, i) => {
      if (i < frame.strip) label.textContent = `memory, strip ${i + 1}: unchanged, no longer read`;
      const read = new Set(i === frame.strip ? frame.ids : []);
      for (const cell of cells) cell.classList.toggle("unread", i <= frame.strip && !read.has(+cell.dataset.id));
    });
    reading.replaceChildren();
    make("span", "label", frame.odd.length ? "read as if it were" : "read as", reading);
    frame.shape.forEach((size, i) => {
      const chip = make("span", "chip", null, reading), axis = frame.axes[i];
      make("b", "", axis === "?" || axis === `${size}` ? size : `${axis} = ${size}`, chip).style.background = frame.colors[i];
      make("small", "", `stride ${frame.strides[i]}`, chip);
    });
  }
  function drawMarks(frame, plan, takes) {
    marks.forEach((mark) => mark.remove());
    marks = plan.marks.map(({ kind, x, y, w, h, text, color, span }) => {
      const mark = make("div", `mark ${kind}`, null, null), label = make("span", "", text, mark);
      mark.style.cssText = `left:${x}px;top:${y}px;width:${w}px;height:${h}px`;
      if (color) (kind.startsWith("name") ? label : mark).style[kind === "box" ? "borderColor" : "background"] = color;
      if (span) {
        const own = frame.ids.slice(...span).filter((id) => id >= 0).map((id) => lane.cells[id]);
        const odd = frame.odd.some((i) => i >= span[0] && i < span[1]) ? "⚠ " : "";
        const [heads, tokens] = [["head", "h"], ["token", "t"]].map(([role, letter]) => spans(own.map((cell) => cell[role]), letter));
        make("em", odd && "odd", `${odd}${heads} of ${tokens}`, mark);
      }
      const faint = [{ opacity: 0 }, { opacity: 0.4, offset: 0.25 }, { opacity: 0.4, offset: 0.75 }, { opacity: 1 }];
      if (takes) mark.animate(faint, { duration: takes, fill: "backwards" });
      return mark;
    });
    board.prepend(...marks);
  }
  function drawGrid(number, spread) {
    const frame = lane.frames[number], plan = plans[number], from = spots, odd = new Set(frame.odd), count = plan.cells.length;
    board.style.height = `${plan.height}px`;
    board.style.setProperty("--unit", `${plan.unit}px`);
    board.classList.toggle("tiny", plan.unit < 27);
    spots = new Map();
    pool.forEach((cell) => { cell.hidden = true; });
    keys[number].forEach((key, i) => {
      if (!key) return;
      const cell = pool.get(key), to = plan.cells[i], start = from.get(key);
      spots.set(key, to);
      cell.hidden = false;
      cell.style.transform = at(to);
      write(cell, frame.places[i], frame.strip, odd.has(i));
      if (spread == null) return;
      const path = start ? [{ transform: at(start), zIndex: 2 }, { transform: at(to), zIndex: 2 }] : [{ opacity: 0 }, { opacity: 1 }];
      cell.animate(path, { duration: FLIGHT, delay: (i / count) * spread, easing: "ease-in-out", fill: "backwards" });
    });
    drawReading(frame);
    drawMarks(frame, plan, spread == null ? 0 : spread + FLIGHT);
  }
  function writeStrip(number) {
    const { cells, spots } = strips[number], before = strips[number - 1], each = FLIGHT * 0.7;
    const old = new Map(before.cells.map((cell, i) => [cell.dataset.id, before.spots[i]]));
    cells.forEach((cell, i) => {
      cell.classList.remove("unread");
      cell.animate(
        [{ transform: at(old.get(cell.dataset.id)), opacity: 0 }, { opacity: 1, offset: 0.05 }, { transform: at(spots[i]) }],
        { duration: each, delay: (i / cells.length) * (WRITE - each), easing: "ease-in-out", fill: "backwards" });
    });
  }
  /** Show a frame: a copy first writes its strip, then the cells of the tensor go to their places. Return how long it takes. */
  function show(number, fly) {
    const frame = lane.frames[number], forward = number === shown + 1, moves = fly && number !== shown && !still();
    if (fly && number === shown) return 0;
    clearTimeout(timer);
    node.getAnimations({ subtree: true }).forEach((animation) => animation.cancel());
    say(frame, number);
    shown = number;
    if (!plans.length) return 0;
    const wait = moves && forward && frame.storage === "copy" ? WRITE : 0, spread = moves ? (forward ? SPREAD : 0) : null;
    if (wait) writeStrip(frame.strip);
    if (wait) timer = setTimeout(() => drawGrid(number, spread), wait);
    else drawGrid(number, spread);
    return moves ? wait + spread + FLIGHT : 0;
  }
  const mark = (id) => node.querySelectorAll(".cell").forEach((cell) => cell.classList.toggle("same", cell.dataset.id === id));
  stage.addEventListener("pointerover", (event) => mark(event.target.closest(".cell")?.dataset.id));
  stage.addEventListener("pointerleave", () => mark());
  if (lane.part) make("p", "part", lane.part, node);
  return { show: (i, fly) => show(Math.min(i, lane.frames.length - 1), fly), resize, stage, frames: lane.frames };
}

/** Say what numbers, letters and colours of the cells mean. */
function drawLegend(lanes, node) {
  const all = Object.values(lanes[0].cells), heads = [...new Set(all.map((cell) => cell.head))].filter((head) => head != null);
  make("span", "", "number: place in memory", node);
  for (const head of heads.sort((a, b) => a - b)) {
    const fills = [...new Set(all.filter((cell) => cell.head === head).map((cell) => cell.fill))];
    const item = make("span", "", null, node);
    make("i", "", null, item).style.background = `linear-gradient(90deg, ${[fills[0], ...fills].join()})`;
    item.append(`h${head}: head ${head}`);
  }
  if (all.some((cell) => cell.token != null)) make("span", "", `t0, t1, …: token${heads.length ? ", later ones deeper" : ""}`, node);
  if (lanes.some((lane) => lane.frames.some((frame) => frame.odd.length))) make("span", "", "◥ not what the axes say", node);
}

function render({ model, el }) {
  const { lanes } = model.get("data"), last = Math.max(...lanes.map((lane) => lane.frames.length)) - 1;
  const root = make("div", "mha-layout", null, el);
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Layout player: arrow keys step, space plays");
  const controls = make("div", "controls", null, root), tracks = make("div", "lanes", null, root);
  let position = 0, timer = null, width = 0;
  const button = (text, action) => {
    const node = make("button", "", text, controls);
    node.addEventListener("click", action);
    return node;
  };
  const back = button("◀ Back", () => go(position - 1)), play = button("▶ Play", () => toggle());
  const next = button("Next ▶", () => go(position + 1)), scrub = make("input", "", null, controls);
  const count = make("span", "count", null, controls);
  drawLegend(lanes, make("div", "legend", null, controls));
  Object.assign(scrub, { type: "range", min: 0, max: last, step: 1 });
  scrub.setAttribute("aria-label", "Step");
  scrub.addEventListener("input", () => go(+scrub.value));
  const drawn = lanes.map((lane) => makeLane(lane, tracks, (i) => go(i)));

  function draw(fly) {
    const lasts = drawn.map((lane) => lane.show(position, fly));
    scrub.value = position;
    count.textContent = `${position + 1} of ${last + 1}`;
    back.disabled = !position;
    next.disabled = position === last;
    return Math.max(...lasts);
  }
  function move(to) {
    const near = Math.abs(to - position) === 1;
    position = to;
    return draw(near);
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "▶ Play";
  }
  function go(to) {
    stop();
    const wanted = Math.max(0, Math.min(last, to));
    if (wanted === position) return;
    move(wanted);
    keep();
  }
  function keep() {
    model.set("position", position);
    model.save_changes();
  }
  function toggle() {
    if (timer) return stop();
    play.textContent = "❚❚ Pause";
    if (position === last) move(0);
    const step = () => {
      if (position === last) return stop();
      const takes = move(position + 1);
      keep();
      timer = setTimeout(step, takes + HOLD);
    };
    timer = setTimeout(step, position ? 0 : 600);
  }
  const follow = () => {
    const wanted = Math.max(0, Math.min(last, model.get("position")));
    if (wanted === position) return;
    stop();
    move(wanted);
  };
  const actions = { ArrowRight: () => go(position + 1), ArrowLeft: () => go(position - 1), Home: () => go(0), End: () => go(last), " ": toggle };
  const press = (event) => { // on the window, because JupyterLab listens on the document before we would hear of it
    if (!event.composedPath().includes(root) || event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    event.stopPropagation();
    if (event.key === " " && event.target.tagName === "BUTTON") return;
    event.preventDefault();
    actions[event.key]();
  };
  window.addEventListener("keydown", press, true);
  model.on("change:position", follow);
  const watch = new ResizeObserver(() => {
    const now = Math.min(...drawn.map((lane) => lane.stage.clientWidth));
    if (!now || now === width) return;
    width = now;
    const frames = drawn.flatMap((lane) => lane.frames).filter((frame) => arrange(frame, width, 28).width <= width);
    const unit = fit(frames, width);
    drawn.forEach((lane) => lane.resize(width, unit));
  });
  drawn.forEach((lane) => watch.observe(lane.stage));
  draw(false);
  follow();
  return () => {
    stop();
    watch.disconnect();
    window.removeEventListener("keydown", press, true);
    model.off("change:position", follow);
  };
}

export default { render };
