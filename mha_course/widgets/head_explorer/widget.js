// All heads as small pictures, and one of them large.

import { makeControls } from "../controls.js";
import { bytesOf, clamp, followModel, make, makeSpeaker, number, say, setAttributes, short, svg } from "../dom.js";
import { makeRecompute } from "../recompute.js";
import { coloursOf, difference, limits, limitsOfDifference, readMaps } from "./data.js";
import { followKeys, followPointer } from "./input.js";
import { arrange, drawLit, drawPicture, makeLegend } from "./picture.js";
import { nameOf, notesOf, readoutOf, titleOf } from "./text.js";
import { layThumbs, makeThumbs, markThumbs, paintThumbs } from "./thumbnails.js";

const SETTLED = 150; // milliseconds until the kernel hears what was chosen: it need not follow every step
const ENTROPY = "Entropy of a head: mean over its rows, in nats; 0 means that each row looks at one key alone.";
const KEYS = {
  "In the large picture":
    "arrow keys move from cell to cell, Home and End go to the ends of the row, Page Up and Page Down to another head, Escape leaves.",
  "In the small pictures":
    "arrow keys, Home and End choose a head; Shift and click, or Shift and Enter, compares with another.",
};

/** Make a menu; its parent is a label with a word before it. */
function makeSelect(word, changed) {
  const select = make("select");
  select.addEventListener("change", () => changed(select.value));
  make("label", "field", make("span", "", word), select);
  return select;
}

class Explorer {
  constructor(model, el) {
    this.model = model;
    const { plain, signed } = model.get("options").palettes;
    const palette = (bytes) => new Uint32Array(bytesOf(bytes).buffer);
    this.palettes = { plain: palette(plain), signed: palette(signed) };
    this.maps = readMaps(model.get("packet"));
    this.plan = this.hover = this.cursor = null;
    this.width = 0; // of the whole widget
    this.recompute = makeRecompute(model);
    this.speaker = makeSpeaker();
    this.build(el);
    this.fill();
    followPointer(this);
    const soon = () => this.soon();
    const calls = { layer: soon, item: soon, head: soon, beside: soon, scale: soon };
    const size = new ResizeObserver(([{ contentRect }]) => this.resize(contentRect.width));
    size.observe(this.root);
    this.stops = [
      followKeys(this),
      followModel(model, { ...calls, packet: () => this.packetCame(), request: () => this.showRequest() }),
      () => size.disconnect(),
      this.recompute.stop,
      this.speaker.stop,
    ];
  }

  build(el) {
    const specs = this.model.get("options").controls;
    this.controls = makeControls(specs, () => this.ask(), Math.random().toString(36).slice(2));
    this.showRequest();
    const moves = make("div", "controls", ...[...this.controls.values()].map(({ node }) => node));
    const recompute = make("div", "recompute", moves, this.recompute.whose, this.recompute.trouble);
    recompute.hidden = !this.controls.size;

    this.items = makeSelect("sentence", (value) => this.put({ item: Number(value) }));
    this.compares = makeSelect("compare with", (value) => this.put({ beside: Number(value) }));
    this.scales = makeSelect("colours", (value) => this.put({ scale: value }));
    const bar = make("div", "bar", ...[this.items, this.compares, this.scales].map((select) => select.parentNode));

    this.list = make("div", "thumbs");
    Object.assign(this.list, { role: "group", ariaLabel: "Heads: arrow keys choose, Shift+Enter compares" });
    this.title = make("p", "title");
    this.base = make("canvas", "base");
    [this.drawing, this.lit] = [svg("g"), svg("g")];
    this.svg = svg("svg", {}, this.drawing, this.lit); // what is lit lies over the picture, which stays as it is
    this.glass = make("div", "glass", this.svg);
    Object.assign(this.glass, { tabIndex: 0, role: "application", ariaRoleDescription: "heat map" });
    this.paper = make("div", "paper", this.base, this.glass);
    this.legend = make("div", "legend");
    this.readout = make("p", "readout");
    this.notes = make("p", "notes");
    const parts = [this.title, this.paper, this.legend, this.readout, this.notes, this.speaker.node];
    this.view = make("div", "view", ...parts);

    const lines = Object.entries(KEYS).map(([where, what]) => make("p", "", make("b", "", where), `: ${what}`));
    const help = make("details", "keys", make("summary", "", "Keys"), ...lines, make("p", "", ENTROPY));
    const body = make("div", "body", make("div", "side", this.list), this.view);
    this.root = make("div", "mha-heads mha-picture", recompute, bar, body, help);
    Object.assign(this.root, { role: "group", ariaLabel: "Heads of attention" });
    el.append(this.root);
  }

  ask() {
    this.recompute.ask({ values: Object.fromEntries([...this.controls].map(([name, one]) => [name, one.read()])) });
  }

  /** Show the values that were asked for, in another view of the same explorer or an earlier one. */
  showRequest() {
    const { values } = this.model.get("request");
    for (const [name, control] of this.controls) if (values[name] !== undefined) control.show(values[name]);
  }

  resize(width) {
    if (!width || width === this.width) return;
    this.width = width;
    layThumbs(this.root, this.list, this.maps, this.thumbs, width);
    this.draw();
  }

  /** Return the map that is shown: of new maps there may be fewer than before. */
  current() {
    const { L, B, slots } = this.maps;
    const shown = (name, count) => clamp(this.model.get(name), 0, count - 1);
    return { layer: shown("layer", L), item: shown("item", B), slot: shown("head", slots) };
  }

  /** Return the map that it is compared with, or null. */
  compared() {
    const flat = this.model.get("beside");
    const { L, slots, index } = this.maps;
    const at = this.current();
    const other = { layer: Math.floor(flat / slots), item: at.item, slot: flat % slots };
    return flat < 0 || other.layer >= L || index(other) === index(at) ? null : other;
  }

  put(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.model.save_changes(), SETTLED);
  }

  choose(layer, slot) {
    this.put({ layer, head: clamp(slot, 0, this.maps.slots - 1) });
  }

  compare(flat) {
    this.put({ beside: flat === this.model.get("beside") ? -1 : flat });
  }

  /** Fill the selects and the small pictures anew: there are other maps. */
  fill() {
    const { maps } = this;
    const { B, slots, kind } = maps;
    this.thumbs = makeThumbs(maps, this.list, ({ layer, slot }, { shiftKey }) => {
      if (shiftKey) this.compare(layer * slots + slot);
      else this.choose(layer, slot);
    });
    const heads = this.thumbs.map(({ at }, flat) => new Option(nameOf(maps, at, true), flat));
    this.compares.replaceChildren(new Option("nothing", -1), ...heads);
    const words = (item) => short(maps.queries(item).slice(0, 8).join(" "), 30);
    this.items.replaceChildren(...Array.from({ length: B }, (_, item) => new Option(`${item}: ${words(item)}`, item)));
    const fixed = { weights: "0 to 1", numbers: `0 to ${number(maps.high)}`, signed: "one for all heads" }[kind];
    this.scales.replaceChildren(new Option(fixed, "fixed"), new Option("each head its own", "head"));
    this.items.parentNode.hidden = B < 2;
    this.compares.parentNode.hidden = heads.length < 2;
    layThumbs(this.root, this.list, maps, this.thumbs, this.width);
  }

  packetCame() {
    const keyOf = ({ shape, kind, B, queries }) => `${shape} ${kind} ${B > 1 && queries(0)}`; // of what fill() shows
    const before = keyOf(this.maps);
    this.maps = readMaps(this.model.get("packet"));
    if (keyOf(this.maps) !== before) this.fill();
    this.soon();
  }

  /** Draw with the next frame, when all changes of this moment are there. */
  soon() {
    this.due ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.due);
    this.due = null;
    const space = this.view.clientWidth; // asked for first: after a change it would be laid out twice
    if (!this.root.isConnected || !space) return;
    const { maps, cursor } = this;
    const at = this.current();
    const compared = this.compared();
    const scale = this.model.get("scale");
    this.items.value = at.item;
    this.scales.value = scale;
    this.compares.value = compared ? compared.layer * maps.slots + compared.slot : -1;
    for (const one of this.compares.options) one.disabled = Number(one.value) === at.layer * maps.slots + at.slot; // arrow keys pass it
    if (cursor) this.cursor = { row: Math.min(cursor.row, maps.T - 1), column: Math.min(cursor.column, maps.S - 1) };
    markThumbs(this.thumbs, maps, at, compared);
    this.drawLarge({ at, compared, one: maps.matrix(at), other: compared && maps.matrix(compared) }, scale, space);
    const key = `${maps.serial} ${at.item} ${scale} ${this.width}`;
    if (key !== this.root.dataset.drawn) paintThumbs(this.thumbs, maps, at.item, scale, this.palettes);
    this.root.dataset.drawn = key;
    this.root.dataset.serial = maps.serial;
  }

  /** Draw a head, or the difference of two. */
  drawLarge(scene, scale, space) {
    const { maps } = this;
    const { at, one, other } = scene;
    this.scene = scene;
    const place = `${maps.serial} ${at.item} ${space}`;
    if (place !== this.place) this.plan = arrange(maps, at.item, space, getComputedStyle(this.root).fontFamily);
    this.place = place; // measuring words takes as long as all else
    const cells = other ? difference(one, other) : one;
    const range = other ? limitsOfDifference(maps, cells, scale) : limits(maps, at, scale);
    const colours = coloursOf(this.palettes, range);
    this.drawing.replaceChildren(...drawPicture(this.base, cells, colours, this.plan));
    this.legend.replaceChildren(...makeLegend(cells, colours));
    this.legend.style.marginLeft = `${this.plan.box.x}px`;
    const { width, height } = this.plan;
    this.paper.style.height = `${height}px`;
    setAttributes(this.svg, { width, height });

    const { entropy } = maps.facts(at);
    const name = titleOf(maps, scene);
    const spread = other || entropy === null ? "" : ` · entropy ${number(entropy)} nats`;
    this.title.replaceChildren(make("b", "", name), spread);
    const notes = notesOf(maps, at).map(({ warning, text }) =>
      make("span", warning ? "odd" : "", `${warning ? "⚠ " : ""}${text}`),
    );
    this.notes.replaceChildren(...notes);
    const help = "Arrow keys move, Home and End, Page Up and Page Down choose a head.";
    this.glass.ariaLabel = `${name}, ${maps.T} queries in rows, ${maps.S} keys in columns. ${help}`;
    this.light({});
  }

  /** Light what is pointed at, by the pointer or by keys, and say what it is. */
  light(pointed) {
    Object.assign(this, pointed);
    if (this.due) return; // it comes with the picture
    const lit = this.hover ?? this.cursor;
    this.lit.replaceChildren(...(lit ? drawLit(this.plan, lit) : []));
    const text = lit ? readoutOf(this.maps, this.scene, lit) : "";
    say(this.readout, text || "Point at a cell, or at a word, to see its numbers.");
    this.speaker.speak(text);
  }

  remove() {
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.due);
    clearTimeout(this.saving);
    this.root.remove();
  }
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.remove();
}

export default { render };
