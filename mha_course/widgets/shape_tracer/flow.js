// The tensors that a step reads, and the one it makes.

import { make, makeButton, product, short, svg } from "../dom.js";
import { label, tensor } from "./tensor.js";
import { quiet } from "./facts.js";

const INPUT = 0.64; // inputs are drawn smaller than what is made of them
const WEIGHT = 0.42; // and parameters smaller still
const BESIDE = 480; // from this width on they are side by side
const MOST = 4; // inputs that are drawn
const ORDERED = /^(reshape|view|flatten|unflatten|squeeze|unsqueeze|reshape_as|view_as|ravel)$/;

function makeChip(form, i) {
  const chip = make("span", "chip", label(form, i));
  const colours = form[2][i];
  const width = 100 / colours.length; // of each, in per cent
  const stops = colours.map((colour, n) => `${colour} ${n * width}% ${(n + 1) * width}%`);
  chip.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  return chip;
}

function makeBlock(title, form, options) {
  const chips = form[0].map((_, i) => makeChip(form, i));
  const shape = make("div", "chips", ...(chips.length ? chips : [quiet("one number")]));
  return make("div", "block", make("div", "title", ...title), shape, tensor(form, options));
}

/** Where a reshape cuts or glues rows: the width of the narrower side, of the side that is wider. */
export function cutsOf(ordered, from, made) {
  const [wide, narrow] = [from?.[1].at(-1), made[1].at(-1)];
  const every = (a, b) => (ordered && b < a && b > 0 && a % b === 0 ? b : undefined);
  return { ofInput: every(wide, narrow), ofResult: every(narrow, wide) };
}

function makeArrow(op) {
  const line = svg("path", { d: "M0 8H62M54 2l8 6-8 6" });
  const shaft = svg("svg", { viewBox: "0 0 64 16", class: "shaft", "aria-hidden": "true" }, line);
  return make("div", "arrow", make("b", "", short(op, 24)), shaft);
}

/** The place where tensors are drawn; `jump` goes to the step that made one. */
export class Flow {
  node = make("div", "flow");
  scale = 1; // until it is known how much room there is

  constructor({ steps }, jump) {
    Object.assign(this, { steps, jump });
  }

  /** Take so much room, in pixels. All tensors have one scale, so that an axis stays as long as it is. */
  fit(free) {
    this.node.classList.toggle("beside", free >= BESIDE);
    this.node.style.minHeight = "";
    this.scale = Math.max(0.6, Math.min(1.5, free / (free >= BESIDE ? 660 : 400)));
  }

  show(step, i) {
    const { op, name, storage, form } = step;
    const from = step.inputs[0]?.[1];
    const ordered = ORDERED.test(op) && from && product(from[1]) === product(form[1]);
    const cuts = cutsOf(ordered, from, form);
    const title = [short(name || op, 40), quiet(`step ${i + 1}`)];
    const before = ordered ? from : undefined;
    const options = { scale: this.scale, storage, every: cuts.ofResult, before };
    const inputs = this.makeInputs(step, cuts.ofInput);
    this.node.replaceChildren(inputs, makeArrow(op), makeBlock(title, form, options));
  }

  /** Draw the inputs; `every` is where the first is cut. */
  makeInputs({ inputs }, every) {
    const tensors = make("div", "operands");
    const parameters = make("div", "operands");
    inputs.slice(0, MOST).forEach(([source, form], n) => {
      const parameter = n > 0 && !this.steps[source] && form[0].every((axis) => axis === "?");
      const scale = this.scale * (parameter ? WEIGHT : INPUT);
      const options = { scale, storage: "", every: n ? undefined : every };
      (parameter ? parameters : tensors).append(makeBlock(this.titleOf(source), form, options));
    });
    if (inputs.length > MOST) tensors.append(quiet(`and ${inputs.length - MOST} more`));
    return make("div", "inputs", ...[tensors, parameters].filter((node) => node.hasChildNodes()));
  }

  /** Name an input: a link to the step that made it, or the argument that it is. */
  titleOf(source) {
    const maker = this.steps[source];
    if (!maker) return [short(source, 40)];
    const name = maker.name || maker.op;
    const spoken = `${name}, go to step ${source + 1}`;
    const link = makeButton("link", short(name, 40), () => this.jump(source), spoken);
    return [link, quiet(`step ${source + 1}`)];
  }
}
