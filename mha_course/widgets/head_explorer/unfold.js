// How the sentence becomes the table, and back: words move above their columns, and the rows follow one by one; or, with
// prefers-reduced-motion, at once.

import { still } from "../player.js";

const WORDS = 420; // milliseconds in which words move
const A_ROW = 45; // milliseconds from row to row
const ROWS = 900; // all of them, at most

/** Animate one of the two pictures into the other; both are drawn already. */
export function unfold({ arcs, root, table, paper, plan, maps }, open) {
  if (still()) return;
  const rows = Math.min(ROWS, A_ROW * maps.T);
  const options = { fill: "both", easing: "ease-in-out", direction: open ? "normal" : "reverse" };
  const animations = [];
  function animate(node, frames, timing) {
    animations.push(node.animate(frames, { ...options, ...timing }));
  }
  root.classList.add("turning");
  const origin = paper.getBoundingClientRect();
  arcs.keyLine.buttons.forEach((button, j) => {
    const from = button.getBoundingClientRect();
    const x = origin.left + plan.box.x + (j + 0.5) * plan.cell.w - from.left - from.width / 2;
    const y = origin.top + plan.box.y - 12 - from.top - 12;
    const moved = `translate(${x}px, ${y}px) scale(.6)`;
    const frames = [
      { transform: "none", opacity: 1 },
      { transform: moved, opacity: 1, offset: 0.9 },
      { transform: moved, opacity: 0 },
    ];
    animate(button, frames, { duration: WORDS });
  });
  const flat = { transform: "scaleY(0)", opacity: 0 };
  animate(arcs.svg, [{ transform: "none", opacity: 1 }, flat], { duration: WORDS * 0.7 });
  const hidden = `inset(0 0 ${100 - (100 * plan.box.y) / plan.height}% 0)`;
  const clips = [
    { clipPath: hidden, opacity: 0 },
    { clipPath: hidden, opacity: 1, offset: 0.02 },
    { clipPath: "inset(0 0 0% 0)", opacity: 1 },
  ];
  const easing = `steps(${maps.T}, end)`;
  animate(table, clips, { delay: WORDS * 0.8, duration: rows, easing });
  Promise.allSettled(animations.map(({ finished }) => finished)).then(() => {
    for (const animation of animations) animation.cancel();
    root.classList.remove("turning");
  });
}
