// A strip of memory, and the tensor as it is read from it. A view moves labels, a copy writes a second strip.
// Everything is drawn from the trait "data"; "position" is the frame that is shown.

import { clamp, hasModifier, make, makeButton } from "../dom.js";
import { Lane } from "./lane.js";
import { arrange, fit } from "./plan.js";

const [HOLD, SOON] = [1900, 600]; // milliseconds from one step to the next, beside its own, and to the first
const LEAST = 28; // pixels of a cell

/** Say what numbers, letters and colours of the cells mean. */
function makeLegend(lanes) {
  const all = Object.values(lanes[0].cells);
  const heads = [...new Set(all.map((cell) => cell.head))].filter((head) => head != null).sort((a, b) => a - b);
  const items = heads.map((head) => {
    const fills = [...new Set(all.filter((cell) => cell.head === head).map((cell) => cell.fill))];
    const ramp = make("i");
    ramp.style.background = `linear-gradient(90deg, ${[fills[0], ...fills].join()})`;
    return make("span", "", ramp, `h${head}: head ${head}`);
  });
  const words = ["number: place in memory"];
  const tokens = all.some((cell) => cell.token != null);
  if (tokens) words.push(`t0, t1, …: token${heads.length ? ", later ones deeper" : ""}`);
  if (lanes.some((lane) => lane.frames.some((frame) => frame.odd.length))) words.push("● not what the axes say");
  const [first, ...rest] = words.map((text) => make("span", "", text));
  return make("div", "legend", first, ...items, ...rest);
}

/** Answer to keys. Return how to stop. */
function pressKeys(root, actions) {
  const press = (event) => {
    const answers = [" ", "Enter"].includes(event.key) && event.target.tagName === "BUTTON"; // by itself
    if (!event.composedPath().includes(root) || hasModifier(event)) return;
    if (!answers && !Object.hasOwn(actions, event.key)) return;
    event.stopPropagation();
    if (answers) return;
    event.preventDefault();
    actions[event.key]();
  };
  window.addEventListener("keydown", press, true); // JupyterLab listens on the document, before we would hear of it
  return () => window.removeEventListener("keydown", press, true);
}

function render({ model, el }) {
  const { lanes: data } = model.get("data");
  const last = Math.max(...data.map((lane) => lane.frames.length)) - 1;
  let [position, timer, width] = [0, null, 0];

  const back = makeButton("", "◀ Back", () => go(position - 1));
  const play = makeButton("", "▶ Play", () => toggle());
  const next = makeButton("", "Next ▶", () => go(position + 1));
  const scrub = Object.assign(make("input"), { type: "range", min: 0, max: last, step: 1 });
  scrub.setAttribute("aria-label", "Step");
  scrub.addEventListener("input", () => go(Number(scrub.value)));
  const count = make("span", "count");
  const controls = make("div", "controls", back, play, next, scrub, count, makeLegend(data));
  const lanes = data.map((lane) => new Lane(lane, (i) => go(i)));
  const tracks = make("div", `lanes ${lanes.length > 1 ? "two" : ""}`, ...lanes.map(({ node }) => node));
  const root = make("div", "mha-layout", controls, tracks);
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Layout player: arrow keys step, space plays");
  el.append(root);

  /** Show a frame in every lane, and return how long it takes. */
  function draw(near) {
    const takes = lanes.map((lane) => lane.show(position, near));
    scrub.value = position;
    count.textContent = `${position + 1} of ${last + 1}`;
    scrub.setAttribute("aria-valuetext", count.textContent);
    back.setAttribute("aria-disabled", position === 0);
    next.setAttribute("aria-disabled", position === last);
    return Math.max(...takes);
  }
  function move(to) {
    const near = Math.abs(to - position) === 1;
    position = to;
    return draw(near);
  }
  function keep() {
    model.set("position", position);
    model.save_changes();
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "▶ Play";
  }
  function go(to) {
    stop();
    const wanted = clamp(to, 0, last);
    if (wanted === position) return;
    move(wanted);
    keep();
  }
  function toggle() {
    if (timer) return stop();
    play.textContent = "❚❚ Pause";
    if (position === last) move(0);
    const step = () => {
      if (position === last) return stop();
      const takes = move(position + 1);
      keep();
      timer = setTimeout(step, takes + HOLD);
    };
    timer = setTimeout(step, position ? 0 : SOON);
  }
  function follow() {
    const wanted = clamp(model.get("position"), 0, last);
    if (wanted === position) return;
    stop();
    move(wanted);
  }
  const stopKeys = pressKeys(root, {
    ArrowRight: () => go(position + 1),
    ArrowLeft: () => go(position - 1),
    Home: () => go(0),
    End: () => go(last),
    " ": toggle,
  });
  model.on("change:position", follow);
  const watch = new ResizeObserver(() => {
    const now = Math.min(...lanes.map((lane) => lane.stage.clientWidth));
    if (!now || now === width) return;
    width = now;
    const frames = lanes.flatMap((lane) => lane.frames).filter((frame) => arrange(frame, width, LEAST).width <= width);
    const unit = fit(frames, width);
    lanes.forEach((lane) => lane.resize(width, unit));
  });
  lanes.forEach((lane) => watch.observe(lane.stage));
  draw(false);
  follow();
  return () => {
    stop();
    watch.disconnect();
    stopKeys();
    model.off("change:position", follow);
    root.remove();
  };
}

export default { render };
