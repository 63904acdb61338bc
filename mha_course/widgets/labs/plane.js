// The panel of the plane lab: arrows whose tips are moved, and the contexts among them.

import { clamp, hasModifier, setAttributes, svg } from "../dom.js";
import { render } from "./lab.js";
import { arrow, KINDS } from "./panels.js";

const STEP = 0.1; // what an arrow key moves a tip by; five times as much with Shift
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** Return where points lie in a square of so many pixels, and the way back, which ends at the edge. */
export function scaleOf(size, reach) {
  const inside = (number) => clamp(Math.round(number * 100) / 100, -reach, reach);
  return {
    inside,
    pixels: ([x, y]) => [((x / reach + 1) / 2) * size, ((1 - y / reach) / 2) * size],
    point: ([x, y]) => [inside(reach * ((2 * x) / size - 1)), inside(reach * (1 - (2 * y) / size))],
  };
}

/** Draw lines at whole numbers, and their names. */
function drawGrid(size, reach, pixels) {
  const ends = Math.floor(reach);
  const numbers = Array.from({ length: 2 * ends + 1 }, (_, i) => i - ends);
  return numbers.flatMap((n) => {
    const [x, y] = pixels([n, n]);
    const lines = svg("path", { d: `M${x} 0V${size}M0 ${y}H${size}`, class: n ? "grid" : "rule" });
    const [below, beside] = [
      svg("text", { x, y: size - 2, class: "tick" }),
      svg("text", { x: 6, y: y + 4, class: "tick" }),
    ];
    below.textContent = beside.textContent = `${n}`;
    return [lines, below, beside];
  });
}

/** Draw an arrow in its colour: that of a query is hollow. */
function drawArrow({ name, of, style, color }, zero, end, size) {
  const hollow = style === "queries";
  const made = arrow(zero, end, style, hollow ? 6 : 4);
  made.style.setProperty("--ink", color);
  if (hollow) {
    const inner = made.firstChild.cloneNode();
    setAttributes(inner, { class: "inner", "stroke-width": 3 });
    made.append(inner);
  }
  const length = Math.hypot(end[0] - zero[0], end[1] - zero[1]) || 1;
  const beside = (axis) => clamp(end[axis] + ((end[axis] - zero[axis]) / length) * 20, 12, size - 12);
  const label = svg("text", { x: beside(0), y: beside(1) + 4, class: "label strong" }, name);
  if (of) label.append(svg("tspan", { dy: 3, class: "sub" }, of));
  return [made, label];
}

/** Draw a context as a dot, tied to the tip of the token that makes it. */
function drawContext({ color }, [x1, y1], [x2, y2]) {
  const tie = svg("line", { x1, y1, x2, y2, stroke: color, class: "tie" });
  return [tie, svg("circle", { cx: x2, cy: y2, r: 6, fill: color, class: "context" })];
}

const nameOf = ({ name, of }) => (of ? `${name} of ${of}` : name);
const placeOf = ([x, y]) => `(${x.toFixed(2)}, ${y.toFixed(2)})`;

/** Let the tip of one arrow be dragged, and moved with keys; `to` is called with the point. */
function makeHandle(root, scale, now, to) {
  const handle = svg("circle", { r: 11, class: "handle", tabindex: 0, role: "application" });
  handle.setAttribute("aria-roledescription", "tip of an arrow");
  const follow = (event) => {
    const { left, top } = root.getBoundingClientRect();
    to(scale.point([event.clientX - left, event.clientY - top]), false);
  };
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
  });
  handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && follow(event));
  handle.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || hasModifier(event)) return;
    event.preventDefault();
    const step = STEP * (event.shiftKey ? 5 : 1);
    const end = now().map((number, axis) => scale.inside(number + step * KEYS[event.key][axis]));
    to(end, true);
  });
  return handle;
}

function arrows(panel, { width, move, idle, read }) {
  const size = Math.min(width, 400);
  const scale = scaleOf(size, panel.reach);
  const root = svg("svg", { width: size, height: size, class: "arrows", role: "group" });
  const drawn = svg("g", { "aria-hidden": "true" });
  let [shown, held] = [panel, {}]; // what was moved and is not answered yet, by its place
  const at = (i) => held[i] ?? shown.arrows[i].at;
  const handles = panel.arrows.map(({ control, index }, i) =>
    makeHandle(
      root,
      scale,
      () => at(i),
      (point, spoken) => {
        held = { ...held, [i]: point };
        draw();
        read(`${nameOf(shown.arrows[i])} = ${placeOf(point)}`, spoken);
        const others = shown.arrows.filter((one) => one.control === control);
        move(
          control,
          others.map((one) => (one.index === index ? point : null)),
        );
      },
    ),
  );
  root.append(...drawGrid(size, panel.reach, scale.pixels), drawn, ...handles);

  function draw() {
    const zero = scale.pixels([0, 0]);
    const ends = shown.arrows.map((_, i) => scale.pixels(at(i)));
    const ghosts = shown.ghosts.map((end) => {
      const [x2, y2] = scale.pixels(end);
      return svg("line", { x1: zero[0], y1: zero[1], x2, y2, class: "chain" });
    });
    const corners = shown.contexts.length ? ends.map((end) => end.join()).join(" ") : "";
    drawn.replaceChildren(
      svg("polygon", { points: corners, class: "triangle" }),
      ...ghosts,
      ...shown.arrows.flatMap((one, i) => drawArrow(one, zero, ends[i], size)),
      ...shown.contexts.flatMap((one, i) => drawContext(one, ends[i], scale.pixels(one.at))),
    );
    handles.forEach((handle, i) => {
      const name = `${nameOf(shown.arrows[i])} at ${placeOf(at(i))}; arrow keys move it`;
      setAttributes(handle, { cx: ends[i][0], cy: ends[i][1], "aria-label": name });
    });
    const contexts = shown.contexts.map((one) => `context of ${one.name} at ${placeOf(one.at)}`);
    root.setAttribute("aria-label", [shown.title, ...contexts].join(", "));
  }
  function update(now) {
    shown = now;
    if (idle()) held = {};
    draw();
  }
  update(panel);
  return { node: root, update };
}

KINDS.arrows = { draw: arrows, needs: 330, most: 420 };

export default { render };
