// A lab: controls, panels, and a sentence. What is moved goes to the kernel, which answers with what to draw.

import { GONE, makeControls, makeQueue } from "../controls.js";
import { keepKeys, make, makeButton, svg } from "../dom.js";
import { GAP, KINDS, leastOf, pack } from "./panels.js";

const SPOKEN = 500; // milliseconds until what changed is read aloud, so that a drag is not
const SIZES = ["big", "small", "tiny"];
const sizeOf = (panel) => panel.size ?? "big";

/** A paragraph for those who listen: words are read once nothing has moved for a moment. */
function makeSpeaker() {
  const node = make("p", "aloud");
  let timer = null;
  node.setAttribute("aria-live", "polite");
  const speak = (words) => {
    clearTimeout(timer);
    timer = setTimeout(() => (node.textContent = words), SPOKEN);
  };
  return { node, speak, stop: () => clearTimeout(timer) };
}

/** The hatching of hidden cells, for all panels of a lab: an id counts in the whole page. */
function makeHatching(id) {
  const patterns = ["dim", "bright"].map((name) => {
    const strokes = svg("path", { d: "M-1 1L1 -1M0 6L6 0M5 7L7 5", class: `hatch ${name}` });
    return svg("pattern", { id: `${id}-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, strokes);
  });
  return svg("svg", { width: 0, height: 0, class: "shared", "aria-hidden": "true" }, svg("defs", {}, ...patterns));
}

/** Return how wide each panel is: big ones share the room, small ones stand in fours, tiny ones all in a row if they can. */
function widthsOf(panels, room) {
  const [big, small, tiny] = SIZES.map((size) => panels.filter((panel) => sizeOf(panel) === size));
  const widths = new Map(pack(big, room, leastOf).map((width, i) => [big[i], width]));
  const across = room > 640 ? 4 : 2;
  for (const panel of small) widths.set(panel, Math.min(Math.floor((room - GAP * (across - 1)) / across), 230));
  const tight = Math.floor(room / tiny.length) - GAP;
  for (const panel of tiny) widths.set(panel, Math.max(78, Math.min(122, tight)));
  return widths;
}

/** Return what a panel must be built anew for; all else is an update. */
const formOf = ({ kind, names, rows, columns, size, drag }, width) =>
  JSON.stringify([kind, names, kind === "matrix" && rows, columns, size, drag, width]);

const titleOf = ({ title, drag, paint }) => `${title}${drag ? ": drag them" : paint ? ": paint it" : ""}`;

/** Build a panel: its picture with title, legend and note. */
function makePanel(panel, tools) {
  const { palettes, width } = tools;
  const picture = KINDS[panel.kind].draw(panel, tools);
  const [title, note] = [make("figcaption", "title", titleOf(panel)), make("p", "note", panel.note)];
  if (panel.size === "tiny") title.style.setProperty("--head", palettes.heads[panel.head % palettes.heads.length]);
  const legend = panel.on
    ? [make("p", "note", make("i", "yes"), ` ${panel.on} `, make("i", "no"), ` ${panel.off}`)]
    : [];
  const node = make("figure", `panel ${panel.kind} ${sizeOf(panel)}`, title, picture.node, ...legend, note);
  // A big matrix takes what its cells need, which may be less than it could have.
  node.style.width = `${panel.size === "big" ? Math.min(width, picture.node.getAttribute("width")) : width}px`;
  function update(now) {
    picture.update(now);
    title.textContent = titleOf(now);
    note.textContent = now.note;
  }
  return { key: formOf(panel, width), node, update };
}

/** All panels of a lab, in groups by size. */
function makeBoards(tools) {
  const groups = Object.fromEntries(SIZES.map((size) => [size, make("div", `group ${size}`)]));
  const drawn = [];
  function draw(panels, room) {
    const widths = widthsOf(panels, room);
    for (const size of ["small", "tiny"])
      groups[size].dataset.title = panels.find((panel) => panel.size === size)?.group ?? "";
    drawn.splice(panels.length).forEach(({ node }) => node.remove());
    panels.forEach((panel, i) => {
      const [width, old] = [widths.get(panel), drawn[i]];
      if (old?.key === formOf(panel, width)) return old.update(panel);
      drawn[i] = makePanel(panel, { ...tools, width });
      if (old) old.node.replaceWith(drawn[i].node);
      else groups[sizeOf(panel)].append(drawn[i].node);
    });
  }
  return { node: make("div", "boards", ...Object.values(groups)), draw };
}

export function render({ model, el }) {
  const { kind, question, hint, controls: specs, start, palettes } = model.get("spec");
  const asker = Math.random().toString(36).slice(2); // which of the views of one lab asked
  let [local, number, room, frame] = [{ ...model.get("view").values }, 0, 0, null];

  const { node: aloud, speak, stop: stopSpeaking } = makeSpeaker();
  const [sentence, trouble, readout] = [make("p", "sentence"), make("p", "trouble"), make("p", "readout")];
  trouble.setAttribute("role", "status");
  const tell = (words) => {
    trouble.textContent = words;
    trouble.hidden = !words;
  };
  const read = (words, spoken) => {
    readout.textContent = words || "\u00a0";
    if (spoken) speak(words);
  };

  const queue = makeQueue(
    (moved) => {
      model.set("request", { asker, number: ++number, moved });
      model.save_changes();
      return number;
    },
    () => tell(`⚠ ${GONE}`),
  );
  function move(name, value) {
    local[name] = value;
    controls.get(name)?.show(value);
    queue.ask({ ...queue.waiting(), [name]: value }); // all that moved since the last question
  }
  const controls = makeControls(specs, move, asker);
  const tools = { move, idle: queue.idle, read, palettes, hatch: `hatch-${asker}`, value: (name) => local[name] };
  const boards = makeBoards(tools);

  const again = makeButton("again", "Start again", () => Object.entries(start).forEach((pair) => move(...pair)));
  const bar = make("div", "controls", ...[...controls.values()].map(({ node }) => node), again);
  const parts = [make("p", "question", question), bar, sentence, trouble, boards.node, readout];
  const root = make("section", "mha-lab", ...parts, ...(hint ? [make("p", "hint", hint)] : []), aloud);
  root.append(makeHatching(tools.hatch));
  root.setAttribute("aria-label", kind);
  keepKeys(root);
  el.append(root);

  function follow() {
    const view = model.get("view");
    if (view.asker === asker) queue.landed(view.number);
    if (queue.idle()) {
      local = { ...view.values };
      for (const [name, control] of controls) control.show(local[name]);
    }
    if (room) boards.draw(view.panels, room);
    if (sentence.textContent !== view.text) speak(view.text);
    // A sentence that has been as high stays so: nothing moves away under the pointer.
    if (room) sentence.style.minHeight = `${sentence.offsetHeight}px`;
    sentence.textContent = view.text;
    tell(view.trouble);
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => (root.dataset.serial = view.serial)); // drawn, and on the screen with this frame
    queue.pump();
  }
  const watch = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (!width || width === room) return;
    room = width;
    sentence.style.minHeight = "";
    boards.draw(model.get("view").panels, room);
  });
  model.on("change:view", follow);
  read("", false);
  follow();
  watch.observe(boards.node);
  return () => {
    watch.disconnect();
    stopSpeaking();
    queue.stop();
    cancelAnimationFrame(frame);
    model.off("change:view", follow);
    root.remove();
  };
}

export default { render };
