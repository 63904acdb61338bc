// All heads as small pictures, and one of them large.

import { makeControls } from "../controls.js";
import { clamp, make, number, setText, setAttributes, svg } from "../dom.js";
import { arrange, drawMarked, drawPicture, makeLegend, palettesOf } from "../matrix.js";
import { showValues } from "../protocol.js";
import { Stage } from "../stage.js";
import { readMaps } from "./data.js";
import { followPointer, pressLarge, pressThumb } from "./input.js";
import { nameOf, notesOf, readoutOf } from "./text.js";
import { makeThumbs, markThumbs, paintThumbs } from "./thumbnails.js";

/**
 * @typedef {object} ExplorerOptions
 * @property {import("../controls.js").ControlSpec[]} controls Of the learner's function; none without one.
 * @property {{ plain: DataView, signed: DataView }} palettes 256 colours each, four bytes a colour.
 *
 * @typedef {import("./data.js").Packet} ExplorerState
 *
 * @typedef {{ moved: Object<string, any> }} ExplorerEvent
 */

const WIDE = 700; // pixels from which the small pictures stand beside the large one
const ENTROPY =
  "Entropy of a head: mean over its rows, in nats; 0 means that each row looks at one key alone.";
const KEYS = {
  "In the large picture":
    "arrow keys move from cell to cell, Home and End go to the ends of the row, Page Up and Page Down to another head, Escape leaves.",
  "In the small pictures": "arrow keys, Home and End choose a head.",
};

class Explorer extends Stage {
  hover = null; // the place under the pointer
  cursor = null; // the cell to which keys have led
  list = make("div", "thumbs");
  title = make("p", "title");
  base = make("canvas", "base hatched");
  drawing = svg("g");
  highlight = svg("g"); // over the picture, which stays as it is
  svg = svg("svg", { class: "matrix" }, this.drawing, this.highlight);
  surface = make("div", "surface", this.svg); // takes pointer and keys
  paper = make("div", "paper", this.base, this.surface);
  legend = make("div", "legend");
  readout = make("p", "readout");
  notes = make("p", "notes");
  view = make("div", "view", this.title, this.paper, this.legend, this.readout, this.notes);

  constructor({ model, el }) {
    super(model);
    const { controls, palettes } = model.get("options");
    this.palettes = palettesOf(palettes);
    this.controls = makeControls(controls, this.kernel.move);
    this.build();
    followPointer(this);
    this.start(el, ["layer", "head"]);
  }

  build() {
    const controls = [...this.controls.values()].map(({ node }) => node);
    const bar = make("div", "controls", ...controls);
    const recompute = make("div", "recompute", bar, this.source, this.trouble);
    recompute.hidden = !controls.length;
    this.view.append(this.speaker.node);
    const body = make("div", "body", make("div", "side", this.list), this.view);
    const help = make("details", "keys", make("summary", "", "Keys"));
    for (const [where, what] of Object.entries(KEYS))
      help.append(make("p", "", make("b", "", where), `: ${what}`));
    help.append(make("p", "", ENTROPY));
    this.root = make("div", "mha-heads mha-picture", recompute, body, help);

    Object.assign(this.root, { role: "group", ariaLabel: "Heads of attention" });
    Object.assign(this.list, { role: "group", ariaLabel: "Heads: arrow keys choose" });
    const role = { role: "application", ariaRoleDescription: "heat map" };
    Object.assign(this.surface, { tabIndex: 0, ...role });
  }

  answer(event, target) {
    if (target === this.surface) return pressLarge(this, event);
    return this.list.contains(target) && pressThumb(this, event);
  }

  /** Return which map is shown: of new maps there may be fewer than before. */
  current() {
    const shown = (name, count) => clamp(this.model.get(name), 0, count - 1);
    return { layer: shown("layer", this.maps.R), slot: shown("head", this.maps.slots) };
  }

  choose({ layer, slot }) {
    this.put({ layer, head: clamp(slot, 0, this.maps.slots - 1) });
  }

  stateCame(state) {
    if (this.kernel.idle()) showValues(this.controls, state);
    this.maps = readMaps(state);
    const shape = `${this.maps.shape} ${this.maps.rows}`;
    if (shape !== this.shape)
      this.thumbs = makeThumbs(this.maps, this.list, (at) => this.choose(at));
    this.shape = shape;
    this.soon();
  }

  draw() {
    this.root.classList.toggle("wide", this.root.clientWidth >= WIDE);
    this.root.classList.toggle("single", this.thumbs.length === 1);
    const space = this.view.clientWidth; // asked for first: after a change it would be laid out twice
    if (!space) return;
    const { maps, cursor } = this;
    const at = this.current();
    const palette = this.palettes[maps.palette];
    if (cursor) {
      cursor.row = Math.min(cursor.row, maps.T - 1);
      cursor.column = Math.min(cursor.column, maps.S - 1);
    }
    markThumbs(this.thumbs, maps, at);
    this.drawLarge(at, { ...maps, palette }, space);
    if (maps !== this.painted) paintThumbs(this.thumbs, maps, palette);
    this.painted = maps;
    Object.assign(this.root.dataset, { drawn: true, serial: maps.serial });
  }

  drawLarge(at, colours, space) {
    const { maps } = this;
    const place = `${maps.serial} ${at.layer} ${space}`;
    if (place !== this.place) {
      const { fontFamily } = getComputedStyle(this.root);
      this.plan = arrange(maps, maps.tokens[at.layer], space, fontFamily);
      this.place = place; // measuring words takes as long as all else
    }
    const cells = maps.matrix(at);
    this.drawing.replaceChildren(...drawPicture(this.base, cells, colours, this.plan));
    this.legend.replaceChildren(...makeLegend(cells, colours));
    this.legend.style.marginLeft = `${this.plan.box.x}px`;
    const { width, height } = this.plan;
    this.paper.style.height = `${height}px`;
    setAttributes(this.svg, { width, height });

    const { entropy } = maps.facts(at);
    const name = nameOf(maps, at);
    const measured = entropy === null ? "" : ` · entropy ${number(entropy)} nats`;
    this.title.replaceChildren(make("b", "", name), measured);
    const notes = notesOf(maps, at).map(({ warning, text }) =>
      make("span", warning ? "odd" : "", `${warning ? "⚠ " : ""}${text}`),
    );
    this.notes.replaceChildren(...notes);
    const help = "Arrow keys move, Home and End, Page Up and Page Down choose a head.";
    this.surface.ariaLabel = `${name}, ${maps.T} queries in rows, ${maps.S} keys in columns. ${help}`;
    this.point({});
  }

  /** Highlight what is pointed at, by the pointer or by keys, and say what it is. */
  point(pointed) {
    Object.assign(this, pointed);
    if (this.due) return; // it comes with the picture
    const place = this.hover ?? this.cursor;
    this.highlight.replaceChildren(...(place ? drawMarked(this.plan, place) : []));
    const text = place ? readoutOf(this.maps, this.current(), place) : "";
    setText(this.readout, text || "Point at a cell, or at a word, to see its numbers.");
    this.speaker.speak(text);
  }
}

function render(context) {
  const explorer = new Explorer(context);
  return () => explorer.remove();
}

export default { render };
