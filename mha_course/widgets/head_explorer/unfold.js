// How the sentence becomes the table, and back: words move above their columns while the arcs give way to the table; or,
// with prefers-reduced-motion, at once.

import { still } from "../player.js";

const DURATION = 700; // milliseconds

/** Animate one of the two pictures into the other; both are drawn already. */
export function unfold({ arcs, root, table, paper, plan }, open) {
  if (still()) return;
  const direction = open ? "normal" : "reverse";
  const timing = { duration: DURATION, fill: "both", easing: "ease-in-out", direction };
  root.classList.add("turning");
  const origin = paper.getBoundingClientRect();
  const animations = arcs.keyLine.buttons.map((button, j) => {
    const from = button.getBoundingClientRect();
    const x = origin.left + plan.box.x + (j + 0.5) * plan.cell.w - from.left - from.width / 2;
    const y = origin.top + plan.box.y - 12 - from.top - 12;
    const transform = ["none", `translate(${x}px, ${y}px) scale(.6)`];
    return button.animate({ transform, opacity: [1, 1, 0] }, timing);
  });
  animations.push(arcs.svg.animate({ opacity: [1, 0, 0] }, timing));
  animations.push(table.animate({ opacity: [0, 0, 1] }, timing));
  Promise.allSettled(animations.map(({ finished }) => finished)).then(() => {
    for (const animation of animations) animation.cancel();
    root.classList.remove("turning");
  });
}
