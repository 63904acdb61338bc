// The sentence with arcs from one of its words, which unfold to the table of all rows; and all heads as small pictures.

import { Arcs, LEAST } from "../arcs.js";
import { makeControls } from "../controls.js";
import { clamp, make, makeButton, setText, setAttributes, svg } from "../dom.js";
import { inView } from "../in_view.js";
import { arrange, drawMarked, drawPicture, makeLegend, palettesOf } from "../matrix.js";
import { showValues } from "../protocol.js";
import { Stage } from "../stage.js";
import { readMaps } from "./data.js";
import { followPointer, pressLarge, pressSentence, pressThumb } from "./input.js";
import { Suggestions } from "./suggestions.js";
import { nameOf, notesOf, readoutOf } from "./text.js";
import { makeThumbs, markThumbs, paintThumbs } from "./thumbnails.js";
import { unfold } from "./unfold.js";

/**
 * @typedef {object} ExplorerOptions
 * @property {import("../controls.js").ControlSpec[]} controls Of the learner's function; none without one.
 * @property {{ plain: DataView, signed: DataView }} palettes 256 colours each, four bytes a colour.
 * @property {string[]} colours Of heads: the first again after the last.
 * @property {import("./suggestions.js").SuggestionsSpec} [suggestions] Ways to change a sentence without typing.
 *
 * @typedef {import("./data.js").ExplorerState} ExplorerState
 *
 * @typedef {{ moved: Object<string, any> }} ExplorerEvent
 */

const WIDE = 700; // from this width on, many small pictures, or those of a large table, are next to it
const SENTENCE = 262; // pixels of a sentence and its arcs, and of the table to which they unfold
const TALLEST = 344; // of any other table; one that is higher scrolls
const FEW = 24; // rows of a table that is seen whole
const AVERAGE = "var(--hatch)";

class Explorer extends Stage {
  hover = null; // the place under the pointer
  cursor = null; // the cell that the arrow keys have reached
  list = make("div", "thumbs");
  title = make("p", "title");
  base = make("canvas", "base hatched");
  drawing = svg("g");
  highlight = svg("g"); // over the picture, which stays as it is
  svg = svg("svg", { class: "matrix" }, this.drawing, this.highlight);
  surface = make("div", "surface", this.svg); // takes pointer and keys
  paper = make("div", "paper", this.base, this.surface);
  table = make("div", "table", this.paper);
  legend = make("div", "legend");
  hint = make(
    "p",
    "hint",
    "Choose a word to follow it.",
    make("span", "keys", " Arrow keys go on from it."),
  );
  readout = make("p", "readout");
  notes = make("p", "notes");
  height = 0; // of the stage: the most that was needed

  constructor({ model, el }) {
    super(model);
    const { controls, palettes, colours, suggestions } = model.get("options");
    this.palettes = palettesOf(palettes);
    this.colours = colours;
    this.controls = makeControls(controls, this.kernel.move);
    const change = (sentence) => {
      this.controls.get("sentence").show(sentence);
      this.kernel.move("sentence", sentence);
    };
    this.suggestions = suggestions && new Suggestions(suggestions, change);
    this.arcs = new Arcs({
      onHover: (row) => this.point({ hover: row === null ? null : { row } }),
      onFollow: (row) => this.put({ row }),
    });
    this.turn = makeButton("turn", "", () => this.put({ unfolded: !model.get("unfolded") }));
    this.build();
    followPointer(this);
    this.start(el, ["layer", "head", "row", "unfolded"]);
  }

  build() {
    const { sentence, ...others } = Object.fromEntries(this.controls);
    const bar = make("div", "controls", ...Object.values(others).map(({ node }) => node));
    bar.hidden = !bar.firstChild;
    const messages = make("div", "said", this.source, this.trouble);
    messages.hidden = !this.controls.size;
    const top = make("div", "top", this.title, sentence?.node ?? "", this.turn);
    this.stage = make("div", "stage", this.arcs.node, this.table);
    const below = make("div", "below", this.readout, make("div", "", this.legend, this.hint));
    this.view = make(
      "div",
      "view",
      top,
      messages,
      this.stage,
      below,
      this.suggestions?.node ?? "",
      this.notes,
      this.speaker.node,
    );
    const body = make("div", "body", this.view, bar, make("div", "side", this.list));
    this.root = make("div", "mha-heads mha-picture", body);

    Object.assign(this.root, { role: "group", ariaLabel: "Heads of attention" });
    Object.assign(this.list, { role: "group", ariaLabel: "Heads: arrow keys choose" });
    this.arcs.node.ariaLabel =
      "Words: arrow keys follow another, Page Up and Page Down another head";
    this.surface.tabIndex = 0;
    Object.assign(this.surface, { role: "application", ariaRoleDescription: "heat map" });
  }

  answer(event, target) {
    if (target === this.surface) return pressLarge(this, event);
    if (this.arcs.node.contains(target)) return pressSentence(this, event);
    return this.list.contains(target) && pressThumb(this, event);
  }

  /** Return which map is shown: the chosen one, or the only one that has come. */
  current() {
    return this.maps.only ?? this.chosen();
  }

  /** Return which map is chosen: of new maps there may be fewer than before. */
  chosen() {
    const within = (name, count) => clamp(this.model.get(name), 0, count - 1);
    return { layer: within("layer", this.maps.R), slot: within("head", this.maps.slots) };
  }

  choose({ layer, slot }) {
    this.put({ layer, head: clamp(slot, 0, this.maps.slots - 1) });
  }

  /** Return which row is followed. */
  followed() {
    return clamp(this.model.get("row"), 0, this.maps.T - 1);
  }

  stateCame(state) {
    if (this.kernel.idle()) showValues(this.controls, state);
    const before = this.maps && this.wordsOf(this.current())[0];
    this.maps = readMaps(state);
    if (before) {
      const alike = this.suggestions?.classOf(before[this.model.get("row")]);
      this.keepWord(before, this.wordsOf(this.current())[0], alike);
    }
    const shape = `${this.maps.shape} ${this.maps.rows}`;
    if (shape !== this.shape)
      this.thumbs = makeThumbs(this.maps, this.list, (at) => this.choose(at));
    this.shape = shape;
    this.soon();
  }

  /** Return queries and keys as they were given; in tables words that come twice are numbered. */
  wordsOf({ layer }) {
    return (this.maps.words ?? this.maps.tokens)[layer];
  }

  draw() {
    const large = this.maps.R > 2 || !this.maps.words;
    const beside = large && this.root.clientWidth >= WIDE;
    this.root.classList.toggle("wide", beside);
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
    this.root.style.setProperty("--head", this.colourOf(at));
    markThumbs(this.thumbs, maps, at);
    this.drawLarge(at, { ...maps, palette }, space);
    this.suggestions?.show(this.wordsOf(at)[0], this.followed());
    if (maps !== this.painted) paintThumbs(this.thumbs, maps, palette);
    this.painted = maps;
    this.turnTo(!maps.words || this.model.get("unfolded"));
    Object.assign(this.root.dataset, { drawn: true, serial: maps.serial });
  }

  colourOf({ slot }) {
    return slot < this.maps.H ? this.colours[slot % this.colours.length] : AVERAGE;
  }

  /** Show the table or the sentence; one turns into the other where it is not the first picture. */
  turnTo(unfolded) {
    const first = this.unfolded === undefined;
    if (this.unfolded === unfolded) return;
    this.unfolded = unfolded;
    this.turn.hidden = !this.maps.words;
    setText(this.turn, unfolded ? "Back to the sentence" : "Show as a table");
    this.root.classList.toggle("unfolded", unfolded);
    // Do not focus what is about to be hidden.
    this.arcs.node.inert = unfolded;
    this.table.inert = !unfolded;
    if (!first && this.maps.words) unfold(this, unfolded);
  }

  drawLarge(at, colours, space) {
    const { maps } = this;
    const names = maps.tokens[at.layer];
    const place = [at.layer, space, maps.T, maps.areWeights, Boolean(maps.words), names].join();
    if (place !== this.place) {
      const { fontFamily } = getComputedStyle(this.root);
      const low = maps.words ? SENTENCE - 4 : maps.T <= FEW && TALLEST - 4;
      this.plan = arrange(maps, names, space, fontFamily, { low });
      if (maps.areWeights) this.plan.least = LEAST;
      if (space !== this.space) this.height = 0;
      const [least, most] = maps.words ? [SENTENCE, SENTENCE + 24] : [0, TALLEST];
      const needed = clamp(this.plan.height, least, most);
      this.height = Math.max(this.height, needed); // it does not jump when words go
      this.space = space;
      this.place = place; // measuring words takes as long as all else
    }
    const cells = maps.matrix(at);
    this.drawing.replaceChildren(...drawPicture(this.base, cells, colours, this.plan));
    this.legend.replaceChildren(...makeLegend(cells, colours));
    this.stage.style.height = `${this.height}px`;
    const { width, height } = this.plan;
    Object.assign(this.paper.style, { width: `${width}px`, height: `${height}px` });
    setAttributes(this.svg, { width, height });

    const name = nameOf(maps, at);
    this.title.replaceChildren(make("b", "", name));
    const notes = notesOf(maps, at).map(({ warning, text }) =>
      make("span", warning ? "odd" : "", `${warning ? "⚠ " : ""}${text}`),
    );
    this.notes.replaceChildren(...notes);
    const help =
      "Arrow keys move, Home and End, Space follows the row, Page Up and Page Down choose a head, Escape leaves.";
    this.surface.ariaLabel = `${name}, ${maps.T} queries in rows, ${maps.S} keys in columns. ${help}`;
    this.point({});
  }

  /** Highlight what is pointed at, by the pointer or by keys, and say what it is. */
  point(pointed) {
    Object.assign(this, pointed);
    if (this.due) return; // it comes with the picture
    const at = this.current();
    const pointedAt = this.hover ?? this.cursor;
    this.highlight.classList.toggle("quiet", !pointedAt);
    const place = pointedAt ?? (this.maps.words ? { row: this.followed() } : null);
    this.highlight.replaceChildren(...(place ? drawMarked(this.plan, place) : []));
    if (this.maps.words) this.drawArcs(at, this.hover?.row ?? this.followed());
    const text = place ? readoutOf(this.maps, at, place) : "";
    setText(this.readout, text || "Choose a cell or a word to see its numbers.");
    this.speaker.speak(text);
  }

  drawArcs(at, follow) {
    const [queries, keys] = this.wordsOf(at);
    const { values: weights, hidden } = this.maps.matrix(at);
    const [width, colour] = [this.space, this.colourOf(at)];
    this.arcs.draw({ queries, keys, weights, hidden, follow, colour, width, height: this.height });
  }
}

function render(context) {
  const explorer = new Explorer(context);
  return () => explorer.remove();
}

export default { render: inView(render) };
