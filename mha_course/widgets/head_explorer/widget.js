// All heads as small pictures, and one of them large.

import { clamp, make, makeButton, say, short } from "../dom.js";
import { followTheme } from "../page.js";
import { bytesOf, number, readMaps } from "./data.js";
import { fitCanvas } from "./draw.js";
import { followKeys, followPointer } from "./input.js";
import { makeRecompute } from "./recompute.js";
import { compose, lookOf, paintLit, paintScene, pictureOf } from "./scene.js";
import { nameOf, notesOf, readoutOf, titleOf } from "./text.js";
import { layThumbs, makeThumbs, markThumbs, paintThumb } from "./thumbnails.js";

const SETTLED = 150; // milliseconds until the kernel hears what was chosen: it need not follow every step
const SPOKEN = 350; // milliseconds until a cell is read aloud: what is passed over is not
const ENTROPY = "Entropy of a head: mean over its rows, in nats; 0 means that each row looks at one key alone.";
const KEYS = {
  "In the large picture":
    "arrow keys move from cell to cell, Home and End go to the ends of the row, Page Up and Page Down to another head, Escape leaves.",
  "In the small pictures":
    "arrow keys, Home and End choose a head; Shift and click, or Shift and Enter, compares with another.",
  "With a painted mask": "click or drag in the large picture, or press Space: a cell is hidden or seen.",
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
    const coloursOf = (bytes) => new Uint32Array(bytesOf(bytes).buffer);
    const { plain, signed } = model.get("options").palettes;
    this.palettes = { plain: coloursOf(plain), signed: coloursOf(signed) };
    this.maps = readMaps(model.get("packet"));
    this.scene = this.hover = this.cursor = null;
    this.width = 0; // of the whole widget
    this.recompute = makeRecompute(model, () => this.visibleMask());
    this.build(el);
    this.fill();
    const brush = followPointer(this);
    this.stops = [followKeys(this, brush), this.recompute.stop, ...this.followModel(), ...this.followPage()];
  }

  build(el) {
    this.items = makeSelect("sentence", (value) => this.put({ item: Number(value) }));
    this.compares = makeSelect("compare with", (value) => this.put({ beside: Number(value) }));
    this.scales = makeSelect("colours", (value) => this.put({ scale: value }));
    const fields = [this.items, this.compares, this.scales].map((select) => select.parentNode);
    const png = makeButton("save", "PNG", () => this.savePicture());
    png.title = "Save this picture";
    const bar = make("div", "bar", ...fields, png);

    this.list = make("div", "thumbs");
    Object.assign(this.list, { role: "group", ariaLabel: "Heads: arrow keys choose, Shift+Enter compares" });
    this.title = make("p", "title");
    this.base = make("canvas", "base");
    this.overlay = make("canvas", "glass"); // what is lit lies over the picture, which stays as it is
    Object.assign(this.overlay, { tabIndex: 0, role: "application", ariaRoleDescription: "heat map" });
    this.paper = make("div", "paper", this.base, this.overlay);
    this.readout = make("p", "readout");
    this.notes = make("p", "notes");
    this.spoken = Object.assign(make("p", "spoken"), { ariaLive: "polite" });
    this.view = make("div", "view", this.title, this.paper, this.readout, this.notes, this.spoken);

    const lines = Object.entries(KEYS).map(([where, what]) => make("p", "", make("b", "", where), `: ${what}`));
    const help = make("details", "keys", make("summary", "", "Keys"), ...lines, make("p", "", ENTROPY));
    const body = make("div", "body", make("div", "side", this.list), this.view);
    this.root = make("div", "mha-heads", this.recompute.node, bar, body, help);
    Object.assign(this.root, { role: "group", ariaLabel: "Heads of attention" });
    el.append(this.root);
  }

  followModel() {
    const [soon, packetCame] = [() => this.soon(), () => this.packetCame()];
    const calls = { packet: packetCame, layer: soon, item: soon, head: soon, beside: soon, scale: soon };
    return Object.entries(calls).map(([name, call]) => {
      this.model.on(`change:${name}`, call);
      return () => this.model.off(`change:${name}`, call);
    });
  }

  /** Follow the widget's width and the page's theme, and return how to stop. */
  followPage() {
    const size = new ResizeObserver(([{ contentRect }]) => {
      if (!contentRect.width || contentRect.width === this.width) return;
      this.width = contentRect.width;
      this.layThumbs();
      this.draw();
    });
    const drawn = () => this.scene?.look;
    const stop = followTheme(this.root, drawn, () => this.soon());
    size.observe(this.root);
    return [() => size.disconnect(), stop];
  }

  /** Return the map that is shown: of new maps there may be fewer than before. */
  current() {
    const { model } = this;
    const { L, B, slots } = this.maps;
    return {
      layer: clamp(model.get("layer"), 0, L - 1),
      item: clamp(model.get("item"), 0, B - 1),
      slot: clamp(model.get("head"), 0, slots - 1),
    };
  }

  /** Return the map that it is compared with, or null. */
  compared() {
    const flat = this.model.get("beside");
    const { L, slots, index } = this.maps;
    const at = this.current();
    const other = { layer: Math.floor(flat / slots), item: at.item, slot: flat % slots };
    return flat < 0 || other.layer >= L || index(other) === index(at) ? null : other;
  }

  /** Return the mask that is seen: a string of 0 and 1 for each row, 1 = may attend. */
  visibleMask() {
    const { T, S } = this.maps;
    const { hidden } = this.maps.matrix(this.current());
    const rowOf = (i) => Array.from({ length: S }, (_, j) => (hidden?.[i * S + j] ? "0" : "1")).join("");
    return Array.from({ length: T }, (_, i) => rowOf(i));
  }

  put(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.model.save_changes(), SETTLED);
  }

  choose(layer, slot) {
    this.put({ layer: clamp(layer, 0, this.maps.L - 1), head: clamp(slot, 0, this.maps.slots - 1) });
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
    this.layThumbs();
  }

  layThumbs() {
    this.thumbSize = layThumbs(this.root, this.list, this.maps, this.thumbs.length, this.width);
  }

  packetCame() {
    const keyOf = ({ shape, kind, B, queries }) => `${shape} ${kind} ${B > 1 && queries(0)}`; // of what fill() shows
    const before = keyOf(this.maps);
    this.maps = readMaps(this.model.get("packet"));
    if (keyOf(this.maps) !== before) this.fill();
    this.recompute.answered(this.maps.serial);
    this.soon();
  }

  /** Draw with the next frame, when all changes of this moment are there. */
  soon() {
    this.due ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.due);
    this.due = null;
    const look = lookOf(this.root);
    const width = this.view.clientWidth; // asked for first: after a change it would be laid out twice
    if (!this.root.isConnected || !width) return;
    const { maps } = this;
    const at = this.current();
    const compared = this.compared();
    const scale = this.model.get("scale");
    this.items.value = at.item;
    this.scales.value = scale;
    this.compares.value = compared ? compared.layer * maps.slots + compared.slot : -1;
    for (const one of this.compares.options) one.disabled = Number(one.value) === at.layer * maps.slots + at.slot; // arrow keys pass it
    if (this.cursor)
      this.cursor = { row: clamp(this.cursor.row, 0, maps.T - 1), column: clamp(this.cursor.column, 0, maps.S - 1) };
    this.scene = compose(maps, this.palettes, { at, compared, scale }, look, width);
    markThumbs(this.thumbs, maps, at, compared);
    this.drawLarge();
    const key = `${maps.serial} ${at.item} ${scale} ${this.width} ${look.ink} ${look.dots}`;
    if (key !== this.root.dataset.drawn) {
      const view = { item: at.item, scale, palettes: this.palettes, look };
      for (const thumb of this.thumbs) paintThumb(thumb, this.thumbSize, maps, view);
    }
    this.root.dataset.drawn = key;
    this.root.dataset.serial = maps.serial;
  }

  drawLarge() {
    const { maps, scene } = this;
    const { at, plan, look, other } = scene;
    this.paper.style.height = `${plan.height}px`;
    paintScene(fitCanvas(this.base, plan, look.dots), maps, scene);
    this.base.dataset.place = [plan.box.x, plan.box.y, plan.cell.w, plan.cell.h].join(" "); // for those who measure
    const { entropy } = maps.facts(at);
    const name = titleOf(maps, scene);
    const spread = other || entropy === null ? "" : ` · entropy ${number(entropy)} nats`;
    this.title.replaceChildren(make("b", "", name), spread);
    const notes = notesOf(maps, at).map(({ warning, text }) =>
      make("span", warning ? "odd" : "", `${warning ? "⚠ " : ""}${text}`),
    );
    this.notes.replaceChildren(...notes);
    const help = "Arrow keys move, Home and End, Page Up and Page Down choose a head.";
    this.overlay.ariaLabel = `${name}, ${maps.T} queries in rows, ${maps.S} keys in columns. ${help}`;
    this.drawOverlay();
  }

  /** Light what is pointed at, and say what it is. */
  drawOverlay() {
    if (this.due) return; // it comes with the picture
    const lit = this.hover ?? this.cursor;
    const { plan, look } = this.scene;
    const context = fitCanvas(this.overlay, plan, look.dots);
    if (lit) paintLit(context, this.maps, this.scene, lit);
    const text = lit ? readoutOf(this.maps, this.scene, lit) : "";
    say(this.readout, text || "Point at a cell, or at a word, to see its numbers.");
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => say(this.spoken, text), SPOKEN);
  }

  savePicture() {
    const picture = pictureOf(this.maps, this.scene, this.title.textContent, this.cursor);
    Object.assign(make("a"), { href: picture.toDataURL(), download: "heads.png" }).click();
  }

  remove() {
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.due);
    clearTimeout(this.saving);
    clearTimeout(this.speaking);
    this.root.remove();
  }
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.remove();
}

export default { render };
