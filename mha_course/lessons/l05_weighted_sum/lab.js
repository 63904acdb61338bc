// The lab of lesson 5: its bars are sliders of the browser's own, drawn as bars.

import { isolateWord, make } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { bars, figure } from "../../widgets/labs/bars.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { KINDS } from "../../widgets/labs/panels.js";
import { compute } from "./compute.js";

/** Draw bars that are dragged: `drag` is the control that they are. */
function sliders(panel, { move, idle }) {
  const { node, update: draw, tracks } = bars(panel);
  let shown = panel;
  let held = {}; // what was moved and is not answered yet

  /** Move one bar; the kernel decides what becomes of the others, hence null for them. */
  function to(i, value) {
    held[i] = value;
    const moved = panel.names.map((_, n) => (n === i ? value : null));
    move(panel.drag, moved);
    update(shown);
  }
  const inputs = panel.names.map((name, i) => {
    const ariaLabel = `${isolateWord(name)}, ${panel.drag}`;
    const input = Object.assign(make("input"), { type: "range", ariaLabel });
    input.addEventListener("input", () => to(i, Number(input.value)));
    tracks[i].append(input);
    return input;
  });
  function update(now) {
    shown = now;
    if (idle()) held = {};
    const { low, high, names } = now;
    const values = now.values.map((value, i) => held[i] ?? value);
    draw({ ...now, values });
    Object.assign(node, { role: null, ariaLabel: null }); // each slider has its own
    inputs.forEach((input, i) => {
      Object.assign(input, { min: low, max: high, step: (high - low) / 100, value: values[i] });
      input.ariaValueText = `${isolateWord(names[i])} ${figure(values[i])}`;
    });
  }
  node.classList.add("drag");
  update(panel);
  return { node, update };
}

const kinds = { ...KINDS, bars: { ...KINDS.bars, draw: sliders } };
const render = (context) => renderLab(context, kinds, { compute });

export default { render: inView(render) };
