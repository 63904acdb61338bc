// The tensors that a step reads, and the one that it makes.

import { make, makeButton, product, short, svg } from "../dom.js";
import { label, tensor } from "../tensor.js";
import { quiet } from "./facts.js";

const INPUT = 0.64; // inputs are drawn smaller than what is made of them
const WEIGHT = 0.42; // and parameters smaller still
const BESIDE = 480; // pixels from where on they stand side by side
const MOST = 4; // inputs that are drawn
const ORDERED = "reshape view flatten unflatten squeeze unsqueeze reshape_as view_as ravel".split(
  " ",
);

function makeChip(form, i) {
  const [chip, colours] = [make("span", "chip", label(form, i)), form[2][i]];
  const part = 100 / colours.length;
  const stops = colours.map((colour, n) => `${colour} ${n * part}% ${(n + 1) * part}%`);
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

/** The place where tensors are drawn; `jump` goes to the step that made one. */
export class Flow {
  constructor({ steps }, jump) {
    Object.assign(this, { steps, jump, scale: 1 }); // until it is known how much room there is
    this.node = make("div", "flow");
  }

  /** Take so much room, in pixels. All tensors have one scale, so that an axis stays as long as it is. */
  fit(free) {
    this.node.classList.toggle("beside", free >= BESIDE);
    this.node.style.minHeight = "";
    this.scale = Math.max(0.6, Math.min(1.5, free / (free >= BESIDE ? 660 : 400)));
  }

  show(step, i) {
    const { op, name, storage, form: made } = step;
    const from = step.inputs[0]?.[1];
    const ordered = ORDERED.includes(op) && from && product(from[1]) === product(made[1]);
    const { scale } = this;
    const cuts = cutsOf(ordered, from, made);
    const title = [short(name || op, 40), quiet(`step ${i + 1}`)];
    const options = { scale, storage, every: cuts.ofResult, before: ordered ? from : undefined };
    this.node.replaceChildren(
      this.makeInputs(step, scale, cuts.ofInput),
      this.makeArrow(op),
      makeBlock(title, made, options),
    );
  }

  makeInputs({ inputs }, scale, every) {
    const [tensors, parameters] = [make("div", "operands"), make("div", "operands")];
    inputs.slice(0, MOST).forEach(([source, form], n) => {
      const parameter = n > 0 && !this.steps[source] && form[0].every((axis) => axis === "?");
      const options = {
        storage: "",
        every: n ? undefined : every,
        scale: scale * (parameter ? WEIGHT : INPUT),
      };
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
    const link = makeButton(
      "link",
      short(name, 40),
      () => this.jump(source),
      `${name}, go to step ${source + 1}`,
    );
    return [link, quiet(`step ${source + 1}`)];
  }

  makeArrow(op) {
    const line = svg("path", { d: "M0 8H62M54 2l8 6-8 6" });
    const shaft = svg("svg", { viewBox: "0 0 64 16", class: "shaft", "aria-hidden": "true" }, line);
    return make("div", "arrow", make("b", "", short(op, 24)), shaft);
  }
}
