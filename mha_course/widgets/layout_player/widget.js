// Strips of memory, and the tensor read from one of them. A view moves labels, a copy writes a second strip.

import { make } from "../dom.js";
import { inView } from "../in_view.js";
import { makePlayer } from "../player.js";
import { Lane } from "./lane.js";

/**
 * @typedef {object} Cell A number and its owner, if known.
 * @property {string} fill The colour of its head and token.
 * @property {string} tag Its token and head.
 * @property {string} owner The same, with the sentence where there are several.
 * @property {number} [token]
 * @property {number} [head]
 * @property {number} [batch]
 * @property {number} [part] 0 to 2, of q, k and v.
 *
 * @typedef {object} Frame A tensor, and what the step before did to it.
 * @property {string} call
 * @property {string} line The line of code.
 * @property {"start" | "view" | "copy" | "same"} storage
 * @property {string} sentence What happened to memory and strides.
 * @property {string} warning What is certainly wrong, or nothing.
 * @property {string[]} axes What a reader would take them for, if they are mixed.
 * @property {string[]} colors
 * @property {number[]} shape
 * @property {number[]} strides
 * @property {number} strip The strip of memory that it is read from.
 * @property {number[]} places In memory, of each element.
 * @property {number[]} ids The numbers there, by their places in the first strip.
 * @property {number[]} odd The elements that are not what their axes say.
 * @property {string} mixing What was mixed, or nothing.
 *
 * @typedef {object} LaneData One trace.
 * @property {Object<string, Cell>} cells By the number's place in the first strip.
 * @property {[number, number][][]} strips Of each strip, the places and the numbers there.
 * @property {Frame[]} frames
 *
 * @typedef {{ lanes: LaneData[], last: number }} LayoutOptions The player's data; `last` is its last step.
 */

/** Say what numbers, letters and colours of the cells mean. */
function makeLegend(lanes) {
  const all = Object.values(lanes[0].cells);
  const legend = make("div", "legend", make("span", "", "number: place in memory"));
  const fills = []; // of each head, in order of the tokens
  for (const { head, fill } of all) if (head != null) (fills[head] ??= new Set()).add(fill);
  fills.forEach(([first, ...later], head) => {
    const ramp = make("i");
    ramp.style.background = `linear-gradient(90deg, ${[first, first, ...later].join()})`;
    legend.append(make("span", "", ramp, `h${head}: head ${head}`));
  });
  const later = fills.length ? ", later ones deeper" : "";
  if (all.some(({ token }) => token != null))
    legend.append(make("span", "", `t0, t1, …: token${later}`));
  const odd = lanes.some((lane) => lane.frames.some((frame) => frame.odd.length));
  if (odd) legend.append(make("span", "", "● not what the axes say"));
  return legend;
}

function render(context) {
  const { lanes: data } = context.model.get("options");
  function show(at, before) {
    const takes = lanes.map((lane) => lane.show(at, before));
    body.style.minHeight = `${body.offsetHeight}px`; // so that nothing below moves up again
    return Math.max(...takes);
  }
  const { root, go, follow, end } = makePlayer(context, "mha-layout", "Layout player", show);
  const lanes = data.map((lane) => new Lane(lane, go));
  root.firstChild.append(makeLegend(data));
  const body = make("div", `lanes${lanes[1] ? " two" : ""}`, ...lanes.map(({ node }) => node));
  root.append(body);
  follow();
  return end;
}

export default { render: inView(render) };
