// A lab: controls, panels, and a sentence. Moves go to the kernel, which answers with what to draw.

import { makeControls } from "../controls.js";
import { keepKeys, make, makeButton, makeSpeaker, setText } from "../dom.js";
import { inView } from "../in_view.js";
import { followTheme, palettesOf } from "../matrix.js";
import { connect, showValues } from "../protocol.js";
import { KINDS } from "./panels.js";

/**
 * @typedef {object} LabOptions
 * @property {string} kind The name of the lab.
 * @property {string} question
 * @property {string} hint
 * @property {string} keys Where there is a keyboard, it follows the hint.
 * @property {import("../controls.js").ControlSpec[]} controls
 * @property {Object<string, any>} start The values at the start.
 * @property {Object<string, DataView>} palettes By name, four bytes a colour.
 *
 * @typedef {object} LabState
 * @property {Object<string, any>} values
 * @property {object[]} panels Each as panels.py describes its kind.
 * @property {string} text The sentence that reads them.
 *
 * @typedef {{ moved: Object<string, any> }} LabEvent
 */

const NARROW = 600; // pixels, below which a sentence may need one line more than at first

const keepHeight = (node, lines = 0) =>
  (node.style.minHeight = `calc(${node.offsetHeight}px + ${lines}lh)`);

const sizeOf = (panel) => panel.size ?? "big";

/** Return what calls for a new panel; anything else is an update. */
const formOf = ({ kind, names, rows, columns, size, drag }) =>
  JSON.stringify([kind, names, kind === "matrix" && rows, columns, size, drag]);

const titleOf = ({ title, drag, paint }) =>
  `${title}${drag ? ": drag them" : paint ? ": paint it" : ""}`;

/** Build the frame of a panel; its picture is drawn once the page has given it its width. */
function makePanel(panel, tools) {
  const { draw, widths } = tools.kinds[panel.kind];
  const title = make("figcaption", "title", panel.title);
  const place = make("div");
  const legend = make("p", "note");
  const entry = (mark, words) => make("span", "", make("i", mark), ` ${words}`);
  if (panel.on)
    legend.append(entry("yes", panel.on), entry(panel.hidden ? "hatched" : "no", panel.off));
  const note = make("p", "note");
  const size = sizeOf(panel);
  const node = make("figure", `panel ${panel.kind} ${size}`, title, place, legend, note);
  const [needs, most] = widths(panel);
  if (size === "small") node.style.minWidth = `${needs}px`;
  else Object.assign(node.style, { flex: `${needs} 1 ${needs}px`, maxWidth: `${most}px` });
  let picture = null;
  let drawn = 0; // for which width
  function update(now, width) {
    title.textContent = titleOf(now);
    note.textContent = now.note;
    if (width === drawn) return picture.update(now);
    picture = draw(now, { ...tools, width });
    place.replaceChildren(picture.node);
    drawn = width;
  }
  return { form: formOf(panel), node, update };
}

/** All panels of a lab: big ones share the width as a style sheet can, small ones are below them. */
function makeBoards(tools) {
  const groups = { big: make("div", "group big"), small: make("div", "group small") };
  let [drawn, widths] = [[], []];
  function draw(panels, resized) {
    const anew = resized || panels.some((panel, i) => drawn[i]?.form !== formOf(panel));
    drawn.splice(panels.length).forEach(({ node }) => node.remove());
    groups.small.dataset.title = panels.find((panel) => panel.group)?.group ?? "";
    panels.forEach((panel, i) => {
      if (drawn[i]?.form === formOf(panel)) return;
      const group = groups[sizeOf(panel)];
      const old = drawn[i]?.node;
      drawn[i] = makePanel(panel, tools);
      if (old?.parentNode === group) old.replaceWith(drawn[i].node);
      else group.append(drawn[i].node);
    });
    if (anew) widths = drawn.map(({ node }) => node.clientWidth); // all at once: the page is laid out once
    panels.forEach((panel, i) => drawn[i].update(panel, widths[i]));
  }
  return { node: make("div", "boards", ...Object.values(groups)), draw };
}

/**
 * Draw a lab; `kinds` are the kinds of panel, among which a lesson may have its own. A lab that needs no kernel has
 * `compute(moved, state)`, which returns the state after a move.
 */
export function renderLab({ model, el }, kinds, { compute } = {}) {
  const { kind, question, hint, keys, controls: specs, start, ...options } = model.get("options");
  const palettes = palettesOf(options.palettes);
  let local = {}; // the values, including those the kernel has not answered yet
  let [drawnWidth, frame, drawings] = [0, null, 0];

  const { node: aloud, speak, stop: stopSpeaking } = makeSpeaker();
  const sentence = make("p", "sentence");
  const trouble = Object.assign(make("p", "trouble"), { role: "status" });
  const readout = make("p", "readout");
  const kernel = connect(
    model,
    draw,
    (text) => {
      setText(trouble, text && `⚠ ${text}`);
      trouble.hidden = !text;
      sentence.hidden = Boolean(text); // it describes the picture that stays
    },
    compute,
  );
  const read = (words, spoken) => {
    readout.textContent = words;
    if (spoken) speak(words);
  };
  function move(name, value) {
    local[name] = value;
    controls.get(name)?.show(value);
    kernel.move(name, value);
  }
  const controls = makeControls(specs, move);
  const value = (name) => local[name];
  const tools = { kinds, move, idle: kernel.idle, read, palettes, value };
  const boards = makeBoards(tools);

  const again = makeButton("again", "Start again", () =>
    Object.entries(start).forEach((pair) => move(...pair)),
  );
  const nodes = Array.from(controls.values(), ({ node }) => node);
  const bar = make("div", "controls", ...nodes, again);
  const below = make(
    "div",
    "below",
    readout,
    make("p", "hint", hint, make("span", "keys", keys && ` ${keys}`)),
  ); // one in the place of the other
  const parts = [make("p", "question", question), bar, sentence, trouble, boards.node, below];
  const root = make("div", "mha-lab mha-picture", ...parts, aloud);
  Object.assign(root, { role: "group", ariaLabel: kind });
  keepKeys(root);
  el.append(root);

  function draw(state) {
    if (kernel.idle()) local = { ...state.values };
    if (drawnWidth) boards.draw(state.panels, false);
    if (kernel.idle()) showValues(controls, state); // now that a panel may have set how far a slider goes
    keepHeight(boards.node); // so that nothing below moves
    if (sentence.textContent !== state.text) speak(state.text);
    // A sentence keeps its greatest height, so that nothing shifts under the pointer.
    if (drawnWidth) keepHeight(sentence);
    sentence.textContent = state.text;
    drawings += 1;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => (root.dataset.serial = drawings)); // drawn, and on the screen with this frame
  }
  const redraw = () => drawnWidth && boards.draw(model.get("state").panels, false);
  const stopTheme = followTheme(redraw);
  const watch = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (!width || width === drawnWidth) return;
    drawnWidth = width;
    for (const node of [sentence, boards.node]) node.style.minHeight = "";
    boards.draw(model.get("state").panels, true);
    keepHeight(sentence, width < NARROW ? 1 : 0);
    keepHeight(boards.node);
  });
  read("", false);
  kernel.follow();
  watch.observe(boards.node);
  return () => {
    watch.disconnect();
    stopTheme();
    stopSpeaking();
    kernel.stop();
    cancelAnimationFrame(frame);
    root.remove();
  };
}

const render = (context) => renderLab(context, KINDS);

export default { render: inView(render) };
