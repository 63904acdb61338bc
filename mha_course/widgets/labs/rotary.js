// The panel of the rotary lab: pairs of channels as arrows on dials.

import { make, makeButton, svg } from "../dom.js";
import { render } from "./lab.js";
import { KINDS } from "./panels.js";
import { arrow } from "./plane.js";

const PLACE = 110; // milliseconds from one place to the next while it plays
const CALM = 1000; // and for those who asked for less motion
const DIAL = 148; // pixels, at most
const DEGREE = 180 / Math.PI;
const [PLAY, STOP] = ["▶\ufe0e Move both on", "❚❚\ufe0e Stop"];

const angleOf = ([x, y]) => Math.round(Math.atan2(y, x) * DEGREE);

/** Draw one dial: where the query and the key of a pair started, and where their turns have taken them. */
function drawDial({ name, turn, q, k, start }, reach, size) {
  const [middle, radius] = [size / 2, size / 2 - 14];
  const zero = [middle, middle];
  const place = ([x, y]) => [middle + (x / reach) * radius, middle - (y / reach) * radius];
  const root = svg("svg", { width: size, height: size + 32, class: "dial", role: "img" });
  const angles = `q at ${angleOf(q)} degrees, k at ${angleOf(k)} degrees`;
  root.setAttribute("aria-label", `${name}: ${angles}; ${turn} radians a token`);
  root.append(svg("circle", { cx: middle, cy: middle, r: radius, class: "rim" }));
  for (const kind of ["k", "q"]) {
    const [x2, y2] = place(start[kind]);
    root.append(svg("line", { x1: middle, y1: middle, x2, y2, class: `ghost ${kind}` }));
  }
  let before = [0, 0]; // where the letter of k stands: that of q makes way
  for (const kind of ["k", "q"]) {
    const [vector, thick] = kind === "q" ? [q, 3.5] : [k, 2];
    const [end, length] = [place(vector), Math.hypot(...vector) || 1];
    const beside = (far) => [end[0] + (vector[0] / length) * far, end[1] - (vector[1] / length) * far + 4];
    const near = beside(11);
    const [x, y] = Math.hypot(near[0] - before[0], near[1] - before[1]) < 12 ? beside(23) : near;
    root.append(arrow(zero, end, kind, thick), svg("text", { x, y, class: "label strong" }, kind));
    before = [x, y];
  }
  root.append(svg("text", { x: middle, y: size + 12, class: "label" }, name));
  root.append(svg("text", { x: middle, y: size + 27, class: "tick" }, `${turn} rad a token`));
  return root;
}

/** A button that moves both tokens on, a place at a time, as fast as the kernel answers. */
function makePlay({ move, value, idle }, places) {
  let timer = null;
  const button = makeButton("again", PLAY, () => (timer ? stop() : start()));
  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = PLAY;
  }
  function step() {
    const next = value("position") + 1;
    if (!button.isConnected || next >= places) stop();
    else if (idle()) move("position", next);
  }
  function start() {
    button.textContent = STOP;
    timer = setInterval(step, matchMedia("(prefers-reduced-motion: reduce)").matches ? CALM : PLACE);
    if (value("position") + 1 >= places) move("position", 0);
  }
  return button;
}

function dials(panel, tools) {
  const across = [6, 3, 2].find((n) => n * 116 <= tools.width) ?? 2;
  const size = Math.min(DIAL, Math.floor(tools.width / across) - 6);
  const board = make("div", "dials");
  const update = (now) => board.replaceChildren(...now.pairs.map((pair) => drawDial(pair, now.reach, size)));
  update(panel);
  return { node: make("div", "", board, makePlay(tools, panel.places)), update };
}

KINDS.dials = { draw: dials, room: () => [960, 960] }; // a row of their own

export default { render };
