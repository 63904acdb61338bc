// A strip of memory, and the tensor as it is read from it. A view moves labels, a copy writes a second strip.
// Everything is drawn from the trait "data"; "position" is the frame that is shown. layout_plan.js stands before this.

const FLIGHT = 900, SPREAD = 900, WRITE = 2600, HOLD = 1900; // milliseconds
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

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
  for (const picture of [memory, board]) picture.setAttribute("aria-hidden", "true"); // the sentence says what is seen
  const makeCell = (id, parent) => {
    const cell = make("div", "cell", null, parent);
    cell.style.backgroundColor = lane.cells[id].fill;
    cell.dataset.id = id;
    make("b", "", null, cell);
    make("small", "", lane.cells[id].tag, cell);
    return cell;
  };
  const write = (cell, place, strip, odd) => {
    const { whose } = lane.cells[cell.dataset.id], first = strip ? `, first at ${cell.dataset.id}` : "";
    const title = `place ${place} of strip ${strip + 1}${first}: ${whose}`;
    cell.classList.toggle("odd", odd);
    if (cell.title === title) return; // a view writes nothing
    cell.title = title;
    cell.firstChild.textContent = place;
  };
  const strips = lane.strips.map((places, number) => ({
    label: make("div", "label", null, memory),
    cells: places.map(([place, id]) => {
      const cell = makeCell(id, memory);
      write(cell, place, number, false);
      cell.lastChild.textContent = number ? `was ${id}` : lane.cells[id].whose;
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
  const flights = [], fly = (node, path, timing) => flights.push(node.animate(path, { ...timing, fill: "backwards" }));

  function putStrips(width) {
    const count = Math.max(...lane.strips.map((strip) => strip.length));
    const least = lane.strips.flat().some(([place]) => place > 99) ? 28 : 24, most = Math.max(1, Math.floor(width / least));
    const run = lane.frames.map(({ shape }) => shape.at(-1) ?? 1).find((size) => size <= most) ?? 1;
    const even = Math.ceil(count / Math.ceil(count / most)), whole = Math.ceil(even / run) * run;
    const across = whole <= most ? whole : even; // rows of equal length, broken where a row of the tensor ends
    const wide = Math.min(46, Math.floor(width / Math.min(across, count)));
    const lines = lane.cells[lane.strips[0][0][1]].whose.split(" ").length, narrow = wide < 34 || lines > 2;
    const tall = narrow ? 24 + 10 * Math.max(2, lines) : 38;
    memory.style.setProperty("--unit", `${wide}px`);
    memory.style.setProperty("--tall", `${tall}px`);
    memory.classList.toggle("narrow", narrow);
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
      if (takes) fly(mark, faint, { duration: takes });
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
    const used = new Set(keys[number]);
    pool.forEach((cell, key) => { cell.hidden = !used.has(key); });
    keys[number].forEach((key, i) => {
      if (!key) return;
      const cell = pool.get(key), to = plan.cells[i], start = from.get(key);
      spots.set(key, to);
      cell.style.transform = at(to);
      write(cell, frame.places[i], frame.strip, odd.has(i));
      if (spread == null) return;
      const path = start ? [{ transform: at(start), zIndex: 2 }, { transform: at(to), zIndex: 2 }] : [{ opacity: 0 }, { opacity: 1 }];
      fly(cell, path, { duration: FLIGHT, delay: (i / count) * spread, easing: "ease-in-out" });
    });
    drawReading(frame);
    drawMarks(frame, plan, spread == null ? 0 : spread + FLIGHT);
  }
  function writeStrip(number) {
    const { cells, spots } = strips[number], before = strips[number - 1], each = FLIGHT * 0.7;
    const old = new Map(before.cells.map((cell, i) => [cell.dataset.id, before.spots[i]]));
    cells.forEach((cell, i) => {
      cell.classList.remove("unread");
      const path = [{ transform: at(old.get(cell.dataset.id)), opacity: 0 }, { opacity: 1, offset: 0.05 }, { transform: at(spots[i]) }];
      fly(cell, path, { duration: each, delay: (i / cells.length) * (WRITE - each), easing: "ease-in-out" });
    });
  }
  /** Show a frame: a copy first writes its strip, then the cells of the tensor go to their places. Return how long it takes. */
  function show(number, near) {
    const frame = lane.frames[number], forward = number === shown + 1, moves = near && number !== shown && !still();
    if (near && number === shown) return 0;
    clearTimeout(timer);
    flights.splice(0).forEach((flight) => flight.cancel());
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
  return { show: (i, near) => show(Math.min(i, lane.frames.length - 1), near), resize, stage, frames: lane.frames };
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
  if (lanes.some((lane) => lane.frames.some((frame) => frame.odd.length))) make("span", "", "● not what the axes say", node);
}

function render({ model, el }) {
  const { lanes } = model.get("data"), last = Math.max(...lanes.map((lane) => lane.frames.length)) - 1;
  const root = make("div", "mha-layout", null, el);
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Layout player: arrow keys step, space plays");
  const controls = make("div", "controls", null, root), tracks = make("div", `lanes ${lanes.length > 1 ? "two" : ""}`, null, root);
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

  function draw(near) {
    const takes = drawn.map((lane) => lane.show(position, near));
    scrub.value = position;
    count.textContent = `${position + 1} of ${last + 1}`;
    scrub.setAttribute("aria-valuetext", count.textContent);
    back.setAttribute("aria-disabled", position === 0);
    next.setAttribute("aria-disabled", position === last);
    return Math.max(...takes);
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
  const actions = new Map(Object.entries({
    ArrowRight: () => go(position + 1), ArrowLeft: () => go(position - 1), Home: () => go(0), End: () => go(last), " ": toggle,
  }));
  const press = (event) => { // on the window, because JupyterLab listens on the document before we would hear of it
    const button = [" ", "Enter"].includes(event.key) && event.target.tagName === "BUTTON"; // answers by itself
    if (!event.composedPath().includes(root) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!button && !actions.has(event.key)) return;
    event.stopPropagation();
    if (button) return;
    event.preventDefault();
    actions.get(event.key)();
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
    root.remove();
  };
}

export default { render };
