// All heads as small pictures, and one of them large.

import { makeControls } from "../controls.js";
import { clamp, make, number, say, setAttributes, svg } from "../dom.js";
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
 * @typedef {object} ExplorerState Maps as maps.py sends them: R = L · B rows of H heads, T queries, S keys.
 * @property {[number, number, number, number]} shape R, H, T, S.
 * @property {number} slots The maps of a row: its heads and, of several, their average.
 * @property {object[]} facts Of each map, as `Maps._facts` describes it.
 * @property {string[]} rows The layer and the sentence of each row, in words.
 * @property {[string[], string[]][]} tokens The queries and the keys of each row.
 * @property {number} low The least number of all, and `high` the largest.
 * @property {number} high
 * @property {DataView} numbers float32, map by map.
 * @property {?DataView} hidden A byte a cell; null where nothing is hidden.
 * @property {string} source The line that says whose numbers they are.
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
  constructor({ model, el }) {
    super(model);
    this.palettes = palettesOf(model.get("options").palettes);
    this.plan = this.hover = this.cursor = this.shape = null;
    this.current = this.current.bind(this);
    this.choose = ({ layer, slot }) =>
      this.put({ layer, head: clamp(slot, 0, this.maps.slots - 1) });
    this.build();
    followPointer(this);
    this.start(el, ["layer", "head"]);
  }

  build() {
    this.controls = makeControls(this.model.get("options").controls, this.kernel.move);
    const nodes = [...this.controls.values()].map(({ node }) => node);
    const bar = make("div", "controls", ...nodes);
    const recompute = make("div", "recompute", bar, this.source, this.trouble);
    recompute.hidden = !this.controls.size;

    this.list = make("div", "thumbs");
    Object.assign(this.list, { role: "group", ariaLabel: "Heads: arrow keys choose" });
    this.title = make("p", "title");
    this.base = make("canvas", "base hatched");
    this.drawing = svg("g");
    this.highlight = svg("g"); // over the picture, which stays as it is
    this.svg = svg("svg", { class: "matrix" }, this.drawing, this.highlight);
    this.surface = make("div", "surface", this.svg); // takes pointer and keys
    Object.assign(this.surface, {
      tabIndex: 0,
      role: "application",
      ariaRoleDescription: "heat map",
    });
    this.paper = make("div", "paper", this.base, this.surface);
    this.legend = make("div", "legend");
    this.readout = make("p", "readout");
    this.notes = make("p", "notes");
    const parts = [
      this.title,
      this.paper,
      this.legend,
      this.readout,
      this.notes,
      this.speaker.node,
    ];
    this.view = make("div", "view", ...parts);

    const lines = Object.entries(KEYS).map(([where, what]) =>
      make("p", "", make("b", "", where), `: ${what}`),
    );
    const help = make(
      "details",
      "keys",
      make("summary", "", "Keys"),
      ...lines,
      make("p", "", ENTROPY),
    );
    const body = make("div", "body", make("div", "side", this.list), this.view);
    this.root = make("div", "mha-heads mha-picture", recompute, body, help);
    Object.assign(this.root, { role: "group", ariaLabel: "Heads of attention" });
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

  stateCame(state) {
    if (this.kernel.idle()) showValues(this.controls, state);
    this.maps = readMaps(state);
    const shape = `${this.maps.shape} ${this.maps.rows}`;
    if (shape !== this.shape) this.thumbs = makeThumbs(this.maps, this.list, this.choose);
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
    if (cursor)
      this.cursor = {
        row: Math.min(cursor.row, maps.T - 1),
        column: Math.min(cursor.column, maps.S - 1),
      };
    markThumbs(this.thumbs, maps, at);
    this.drawLarge(at, { ...maps, palette }, space);
    if (maps !== this.painted) paintThumbs(this.thumbs, maps, palette);
    this.painted = maps;
    Object.assign(this.root.dataset, { drawn: true, serial: maps.serial });
  }

  drawLarge(at, colours, space) {
    const { maps } = this;
    const place = `${maps.serial} ${at.layer} ${space}`;
    if (place !== this.place)
      this.plan = arrange(
        maps,
        maps.tokens[at.layer],
        space,
        getComputedStyle(this.root).fontFamily,
      );
    this.place = place; // measuring words takes as long as all else
    const cells = maps.matrix(at);
    this.drawing.replaceChildren(...drawPicture(this.base, cells, colours, this.plan));
    this.legend.replaceChildren(...makeLegend(cells, colours));
    this.legend.style.marginLeft = `${this.plan.box.x}px`;
    const { width, height } = this.plan;
    this.paper.style.height = `${height}px`;
    setAttributes(this.svg, { width, height });

    const { entropy } = maps.facts(at);
    const name = nameOf(maps, at);
    this.title.replaceChildren(
      make("b", "", name),
      entropy === null ? "" : ` · entropy ${number(entropy)} nats`,
    );
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
    say(this.readout, text || "Point at a cell, or at a word, to see its numbers.");
    this.speaker.speak(text);
  }
}

function render(context) {
  const explorer = new Explorer(context);
  return () => explorer.remove();
}

export default { render };
