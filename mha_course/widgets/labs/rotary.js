// Panels of the rotary lab: pairs of channels as arrows on dials, and the dot product as a wave over the distance.

import { make, svg } from "../dom.js";
import { figure } from "./bars.js";
import { afresh, arrow, KINDS, MOST, NEEDS } from "./panels.js";

{
  const PLACE = 110; // milliseconds from one place to the next while it plays
  const CALM = 1000; // and for those who asked for less motion
  const SIDE = 148; // pixels of a dial, at most
  const DEGREE = 180 / Math.PI;

  /** Draw one dial: where the query and the key of a pair started, and where their turns have taken them. */
  function dial({ name, turn, q, k, start }, reach, size) {
    const [middle, radius] = [size / 2, size / 2 - 14];
    const place = ([x, y]) => [middle + (x / reach) * radius, middle - (y / reach) * radius];
    const angle = ([x, y]) => Math.round(Math.atan2(y, x) * DEGREE);
    const spoken = `${name}: q at ${angle(q)} degrees, k at ${angle(k)} degrees; ${turn} radians a token`;
    const root = svg("svg", { width: size, height: size + 32, class: "dial", role: "img", "aria-label": spoken });
    root.append(svg("circle", { cx: middle, cy: middle, r: radius, class: "rim" }));
    const zero = [middle, middle];
    for (const [vector, kind] of [[start[1], "k"], [start[0], "q"]]) {
      const [x, y] = place(vector);
      root.append(svg("line", { x1: middle, y1: middle, x2: x, y2: y, class: `ghost ${kind}` }));
    }
    let before = [0, 0]; // where the letter of k stands: that of q makes way
    for (const [vector, kind, thick] of [[k, "k", 2], [q, "q", 3.5]]) {
      const [end, long] = [place(vector), Math.hypot(...vector) || 1];
      root.append(arrow(zero, end, kind, thick));
      const beside = (far) => [end[0] + (vector[0] / long) * far, end[1] - (vector[1] / long) * far + 4];
      const near = beside(11);
      const [x, y] = Math.hypot(near[0] - before[0], near[1] - before[1]) < 12 ? beside(23) : near;
      root.append(svg("text", { x, y, class: "label strong" }, kind));
      before = [x, y];
    }
    root.append(svg("text", { x: middle, y: size + 12, class: "label" }, name));
    root.append(svg("text", { x: middle, y: size + 27, class: "tick" }, `${turn} rad a token`));
    return root;
  }

  /** Dials beside each other, and a button that moves both tokens on. */
  KINDS.dials = (panel, { width, move, value, idle }) => {
    const across = [6, 3, 2].find((n) => n * 116 <= width) ?? 2;
    const size = Math.min(SIDE, Math.floor(width / across) - 6);
    const board = make("div", "dials");
    const play = Object.assign(make("button", "again", "▶\ufe0e Move both on"), { type: "button" });
    let [timer, places] = [null, panel.places];
    const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "▶\ufe0e Move both on";
    };
    play.addEventListener("click", () => {
      if (timer) return stop();
      play.textContent = "❚❚\ufe0e Stop";
      timer = setInterval(() => {
        const next = value("position") + 1;
        if (!play.isConnected || next >= places) stop();
        else if (idle()) move("position", next);
      }, calm() ? CALM : PLACE);
      if (value("position") + 1 >= places) move("position", 0);
    });
    const update = (now) => {
      places = now.places;
      board.replaceChildren(...now.pairs.map((pair) => dial(pair, now.reach, size)));
    };
    update(panel);
    return { node: make("div", "", board, play), update };
  };

  /** The dot product of q and k over their distance, above and below 0, with the distance marked. */
  KINDS.wave = afresh((panel, { width }) => {
    const [left, right, top, height, bottom] = [40, 10, 8, 200, 34];
    const [low, high] = [Math.min(0, ...panel.values), Math.max(0, ...panel.values, 1e-9)];
    const x = (i) => left + (i / (panel.values.length - 1)) * (width - left - right);
    const y = (number) => top + ((high - number) / (high - low)) * (height - top - bottom);
    const here = panel.values[panel.at];
    const spoken = `${panel.title}: ${figure(here)} at distance ${panel.at}`;
    const root = svg("svg", { width, height, class: "lines", role: "img", "aria-label": spoken });
    for (const number of low < 0 ? [low, 0, high] : [0, high]) {
      root.append(svg("line", { x1: left, x2: width - right, y1: y(number), y2: y(number), class: "rule" }));
      root.append(svg("text", { x: left - 6, y: y(number) + 4, class: "tick end" }, number.toFixed(1)));
    }
    const step = Math.ceil(panel.values.length / 8);
    panel.values.forEach((_, i) => {
      if (i % step === 0) root.append(svg("text", { x: x(i), y: height - bottom + 15, class: "tick" }, `${i}`));
    });
    root.append(svg("text", { x: (left + width - right) / 2, y: height - 2, class: "tick" }, panel.xlabel));
    const way = panel.values.map((number, i) => `${i ? "L" : "M"}${x(i)} ${y(number)}`).join("");
    root.append(svg("line", { x1: x(panel.at), x2: x(panel.at), y1: top, y2: height - bottom, class: "here" }));
    root.append(svg("path", { d: way, class: "curve" }));
    root.append(svg("circle", { cx: x(panel.at), cy: y(here), r: 4.5, class: "dot" }));
    return root;
  });

  Object.assign(NEEDS, { dials: 2000, wave: 280 }); // dials have a row of their own
  Object.assign(MOST, { dials: 960, wave: 460 });
}
