// A strip of memory, and the tensor as it is read from one of them. A view moves labels, a copy writes a second strip.

import { make } from "../dom.js";
import { makePlayer } from "../player.js";
import { Lane } from "./lane.js";

/** Say what numbers, letters and colours of the cells mean. */
function makeLegend(lanes) {
  const all = Object.values(lanes[0].cells);
  const heads = [...new Set(all.map((cell) => cell.head))]
    .filter((head) => head != null)
    .sort((a, b) => a - b);
  const ramps = heads.map((head) => {
    const fills = [...new Set(all.filter((cell) => cell.head === head).map((cell) => cell.fill))];
    const ramp = make("i");
    ramp.style.background = `linear-gradient(90deg, ${[fills[0], ...fills].join()})`;
    return make("span", "", ramp, `h${head}: head ${head}`);
  });
  const legend = make("div", "legend", make("span", "", "number: place in memory"), ...ramps);
  const later = heads.length ? ", later ones deeper" : "";
  if (all.some((cell) => cell.token != null))
    legend.append(make("span", "", `t0, t1, …: token${later}`));
  const odd = lanes.some((lane) => lane.frames.some((frame) => frame.odd.length));
  if (odd) legend.append(make("span", "", "● not what the axes say"));
  return legend;
}

function render(context) {
  const { lanes: data } = context.model.get("options");
  const { root, go, follow, end } = makePlayer(
    context,
    "mha-layout",
    "Layout player",
    (at, before) => {
      const takes = lanes.map((lane) => lane.show(at, before));
      const heights = lanes.map(({ stage }) => stage.offsetHeight); // of all at once: the page is laid out once
      lanes.forEach(({ stage }, i) => (stage.style.minHeight = `${heights[i]}px`)); // so that little moves below
      return Math.max(...takes);
    },
  );
  const lanes = data.map((lane) => new Lane(lane, go));
  root.firstChild.append(makeLegend(data));
  root.append(
    make("div", `lanes${lanes.length > 1 ? " two" : ""}`, ...lanes.map(({ node }) => node)),
  );
  follow();
  return end;
}

export default { render };
