// A plane: arrows from 0, whose tips may be moved, the hull of tips, dots, and dashed paths.

import { clamp, hasModifier, setAttributes, svg } from "../dom.js";

const LARGEST = 340; // pixels of a side
const STEP = 0.1; // what an arrow key moves a tip by; five times as much with Shift
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const SCROLLS = ["Home", "End", "PageUp", "PageDown"]; // the page would go, and leave the tip behind

/** Return where points are in a square of a given size in pixels, and the way back, which ends at the edge. */
export function scaleOf(size, reach) {
  const inside = (number) => clamp(Math.round(number * 100) / 100, -reach, reach);
  return {
    inside,
    pixels: ([x, y]) => [((x / reach + 1) / 2) * size, ((1 - y / reach) / 2) * size],
    point: ([x, y]) => [inside(reach * ((2 * x) / size - 1)), inside(reach * (1 - (2 * y) / size))],
  };
}

/** Draw lines at whole numbers, and their names; a small plane is a circle. */
function drawGrid(size, reach, pixels, small) {
  if (small) return [svg("circle", { cx: size / 2, cy: size / 2, r: size / 2, class: "rim" })];
  const ends = Math.floor(reach);
  const numbers = Array.from({ length: 2 * ends + 1 }, (_, i) => i - ends);
  return numbers.flatMap((n) => {
    const [x, y] = pixels([n, n]);
    const lines = svg("path", { d: `M${x} 0V${size}M0 ${y}H${size}`, class: n ? "grid" : "rule" });
    const below = svg("text", { x, y: size - 2, class: "tick" }, `${n}`);
    return [lines, below, svg("text", { x: 6, y: y + 4, class: "tick" }, `${n}`)];
  });
}

const [FAR, CLOSE] = [20, 15]; // pixels of a name from its tip, and at least from other names and dots
const WAYS = [0, 40, -40, 80, -80, 120, -120, 180]; // degrees from the arrow's, in which there may be room

/** Write the names of arrows: each beyond its tip, or next to it if another name or a dot is in the way. */
function nameTips(arrows, [x, y], ends, dots, size) {
  const taken = [...dots];
  const beside = (number) => clamp(number, 12, size - 12);
  const isFree = ([x, y]) => taken.every(([atX, atY]) => Math.hypot(x - atX, y - atY) > CLOSE);
  return arrows.map(({ name, of }, i) => {
    const [toX, toY] = ends[i];
    const places = WAYS.map((degrees) => {
      const angle = Math.atan2(toY - y, toX - x) + (degrees * Math.PI) / 180;
      return [beside(toX + FAR * Math.cos(angle)), beside(toY + FAR * Math.sin(angle))];
    });
    const place = places.find(isFree) ?? places[0];
    taken.push(place);
    const label = svg("text", { x: place[0], y: place[1] + 4, class: "label" }, name);
    if (of) label.append(svg("tspan", { dy: 3, class: "sub" }, of));
    return label;
  });
}

/** Draw an arrow in its colour, a hollow one for a query. */
function drawArrow({ style, color, thick }, [x, y], [toX, toY]) {
  const length = Math.hypot(toX - x, toY - y);
  const a = length && (toX - x) / length; // (a, b) has length 1, or 0
  const b = length && (toY - y) / length;
  const head = Math.min(9 + thick, length);
  const half = 3 + thick;
  const [bx, by] = [toX - a * head, toY - b * head];
  const shaft = `M${x} ${y}L${bx} ${by}`;
  const tip = `M${toX} ${toY}L${bx - b * half} ${by + a * half}L${bx + b * half} ${by - a * half}Z`;
  const node = svg("g", { class: `arrow ${style}`, style: `--ink: ${color}` });
  node.append(svg("path", { d: shaft, "stroke-width": thick, class: "shaft" }));
  node.append(svg("path", { d: tip, class: "tip" }));
  if (style === "queries")
    node.append(svg("path", { d: shaft, "stroke-width": 3, class: "inner" }));
  return node;
}

/** Draw a dot, tied to the tip of an arrow if it belongs to one. */
function drawDot({ color, tie }, [cx, cy], ends) {
  const dot = svg("circle", { cx, cy, r: 6, fill: color, class: "context" });
  if (tie === null) return [dot];
  const [x1, y1] = ends[tie];
  return [svg("line", { x1, y1, x2: cx, y2: cy, stroke: color, class: "tie" }), dot];
}

const nameOf = ({ name, of }) => (of ? `${name} of ${of}` : name);
const placeOf = ([x, y]) => `(${x.toFixed(2)}, ${y.toFixed(2)})`;

/** Let the tip of one arrow be dragged, and moved with keys; `to` is called with the point. */
function makeHandle(root, scale, now, to) {
  const handle = svg("circle", { r: 11, class: "handle", tabindex: 0, role: "application" });
  handle.setAttribute("aria-roledescription", "tip of an arrow");
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
  });
  const stay = (event) => event.preventDefault(); // the page, under a finger that drags
  handle.addEventListener("touchstart", stay, { passive: false });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const { left, top } = root.getBoundingClientRect();
    to(scale.point([event.clientX - left, event.clientY - top]), false);
  });
  handle.addEventListener("keydown", (event) => {
    if (SCROLLS.includes(event.key)) event.preventDefault();
    if (!KEYS[event.key] || hasModifier(event)) return;
    event.preventDefault();
    const step = STEP * (event.shiftKey ? 5 : 1);
    const end = now().map((number, axis) => scale.inside(number + step * KEYS[event.key][axis]));
    to(end, true);
  });
  return handle;
}

export function arrows(panel, { width, move, idle, read }) {
  const size = Math.min(width, LARGEST);
  const scale = scaleOf(size, panel.reach);
  const root = svg("svg", { width: size, height: size, class: "arrows" });
  root.role = panel.drag ? "group" : "img";
  const drawn = svg("g", { "aria-hidden": "true" });
  let shown = panel;
  let held = {}; // what was moved and is not answered yet, by its place
  const at = (i) => held[i] ?? shown.arrows[i].at;

  /** Move one tip; the kernel decides what becomes of the others of its control, hence null for them. */
  function to(i, point, spoken) {
    held = { ...held, [i]: point };
    draw();
    const moved = shown.arrows[i];
    read(`${nameOf(moved)} = ${placeOf(point)}`, spoken);
    const together = shown.arrows.filter(({ control }) => control === moved.control);
    const points = together.map((arrow) => (arrow === moved ? point : null));
    move(moved.control, points);
  }
  const makeOne = (_, i) => makeHandle(root, scale, () => at(i), to.bind(null, i));
  const handles = panel.drag ? panel.arrows.map(makeOne) : [];
  const grid = drawGrid(size, panel.reach, scale.pixels, panel.size === "small");
  root.append(...grid, drawn, ...handles);

  function draw() {
    const ends = shown.arrows.map((_, i) => scale.pixels(at(i)));
    const zero = scale.pixels([0, 0]);
    const dots = shown.dots.map((dot) => scale.pixels(dot.at));
    const corners = ends.slice(0, shown.hull);
    const paths = shown.paths.map((path) =>
      svg("polyline", { points: path.map(scale.pixels).join(" "), class: "chain" }),
    );
    drawn.replaceChildren(
      svg("polygon", { points: corners.join(" "), class: "hull" }),
      ...paths,
      ...shown.arrows.map((arrow, i) => drawArrow(arrow, zero, ends[i])),
      ...shown.dots.flatMap((dot, i) => drawDot(dot, dots[i], ends)),
      ...nameTips(shown.arrows, zero, ends, dots, size),
    );
    handles.forEach((handle, i) => {
      const name = `${nameOf(shown.arrows[i])} at ${placeOf(at(i))}; arrow keys move it`;
      setAttributes(handle, { cx: ends[i][0], cy: ends[i][1], "aria-label": name });
    });
    const read = shown.dots.map((dot) => `${dot.name} at ${placeOf(dot.at)}`);
    root.ariaLabel = [shown.title, ...read].join(", ");
  }
  function update(now) {
    shown = now;
    if (idle()) held = {};
    draw();
  }
  update(panel);
  return { node: root, update };
}
