// All heads as small pictures, and one of them large.

import { clamp, make, makeButton, say, short } from "../dom.js";
import { bytesOf, number, readMaps } from "./data.js";
import { followKeys, followPointer } from "./input.js";
import { makeRecompute } from "./recompute.js";
import { compose, lookOf, paintLit, paintScene, pictureOf } from "./scene.js";
import { nameOf, notesOf, readoutOf, titleOf } from "./text.js";
import { layThumbs, makeThumbs, markThumbs, paintThumb } from "./thumbnails.js";

const BUSY = 6; // milliseconds that small pictures may take of a frame
const SETTLED = 150; // milliseconds until the kernel hears what was chosen: it need not follow every step
const SPOKEN = 350; // milliseconds until a cell is read aloud: what is passed over is not
const VIEW = ["layer", "item", "head", "beside", "scale"]; // what is chosen: traits of the model
const ENTROPY = "Entropy of a head: mean over its rows, in nats; 0 means that each row looks at one key alone.";
const KEYS = [
  [
    "In the large picture",
    "arrow keys move from cell to cell, Home and End go to the ends of the row, Page Up and Page Down to another head, Escape leaves.",
  ],
  [
    "In the small pictures",
    "arrow keys, Home and End choose a head; Shift and click, or Shift and Enter, compares with another.",
  ],
  ["With a painted mask", "click or drag in the large picture, or press Space: a cell is hidden or seen."],
];

function download(name, type, data) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([data], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Bring a canvas to a size in CSS pixels, clear it, and return what draws on it. */
function fitCanvas(canvas, { width, height }, dots) {
  const [w, h] = [Math.round(width * dots), Math.round(height * dots)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const field = (word, node) => make("label", "field", make("span", "", word), node);

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.palettes = Object.fromEntries(
      Object.entries(model.get("options").palettes).map(([name, bytes]) => [
        name,
        new Uint32Array(bytesOf(bytes).buffer),
      ]),
    );
    this.maps = readMaps(model.get("packet"));
    this.scene = this.hover = this.cursor = null;
    this.width = 0; // of the whole widget
    this.waiting = []; // small pictures that are to be drawn
    this.recompute = makeRecompute(model, () => this.visibleMask());
    this.build(el);
    this.fill();
    this.brush = followPointer(this, this.overlay);
    this.stops = [
      followKeys(this, this, this.brush),
      () => this.recompute.stop(),
      ...this.followModel(),
      ...this.followPage(),
    ];
  }

  build(el) {
    this.items = make("select");
    this.compares = make("select");
    this.scales = make("select");
    this.items.addEventListener("change", () => this.put({ item: Number(this.items.value) }));
    this.compares.addEventListener("change", () => this.put({ beside: Number(this.compares.value) }));
    this.scales.addEventListener("change", () => this.put({ scale: this.scales.value }));
    const png = makeButton("", "PNG", () => this.savePicture());
    const page = makeButton("", "HTML", () => this.savePage());
    png.title = "Save this picture";
    page.title = "Save a page with all heads that needs no Python";
    const fields = [field("sentence", this.items), field("compare with", this.compares), field("colours", this.scales)];
    const bar = make("div", "bar", ...fields, make("span", "saves", png, page));

    this.list = make("div", "thumbs");
    this.list.setAttribute("role", "group");
    this.list.setAttribute("aria-label", "Heads: arrow keys choose, Shift+Enter compares");
    this.title = make("p", "title");
    this.base = make("canvas", "base");
    this.overlay = make("canvas", "glass"); // what is lit lies over the picture, which stays as it is
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "application");
    this.overlay.setAttribute("aria-roledescription", "heat map");
    this.paper = make("div", "paper", this.base, this.overlay);
    this.readout = make("p", "readout");
    this.notes = make("p", "notes");
    this.spoken = make("p", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
    this.view = make("div", "view", this.title, this.paper, this.readout, this.notes, this.spoken);

    const lines = KEYS.map(([where, what]) => make("p", "", make("b", "", where), `: ${what}`));
    const help = make("details", "keys", make("summary", "", "Keys"), ...lines, make("p", "", ENTROPY));
    const body = make("div", "body", make("div", "side", this.list), this.view);
    this.root = make("div", "mha-heads", this.recompute.node, bar, body, help);
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Heads of attention");
    el.append(this.root);
  }

  /** Follow the model, and return how to stop. */
  followModel() {
    const calls = { packet: () => this.packetCame(), page: () => this.keepPage() };
    for (const name of VIEW) calls[name] = () => this.soon();
    return Object.entries(calls).map(([name, call]) => {
      this.model.on(`change:${name}`, call);
      return () => this.model.off(`change:${name}`, call);
    });
  }

  /** Follow the widget's width and the page's theme, and return how to stop. */
  followPage() {
    const soon = () => this.soon();
    const size = new ResizeObserver(([entry]) => {
      const { width } = entry.contentRect;
      if (!width || width === this.width) return;
      this.width = width;
      this.sizes = layThumbs(this.root, this.list, this.maps, this.thumbs.length, width);
      this.draw();
    });
    const theme = new MutationObserver(soon);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    // JupyterLab skips what is out of sight: a theme that changes meanwhile shows no new colours until it is back.
    const sight = new IntersectionObserver(soon);
    size.observe(this.root);
    sight.observe(this.root);
    theme.observe(document.body, {
      attributes: true,
      attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"],
    });
    dark.addEventListener("change", soon);
    return [
      () => size.disconnect(),
      () => sight.disconnect(),
      () => theme.disconnect(),
      () => dark.removeEventListener("change", soon),
    ];
  }

  /** Return the map that is shown: of new maps there may be fewer than before. */
  current() {
    const { L, B, slots } = this.maps;
    const { model } = this;
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
    const { L, B, slots, kind } = maps;
    const all = Array.from({ length: L * slots }, (_, flat) => ({
      layer: Math.floor(flat / slots),
      slot: flat % slots,
    }));
    this.compares.replaceChildren(
      new Option("nothing", -1),
      ...all.map((at, flat) => new Option(nameOf(maps, at, true), flat)),
    );
    const words = (item) => short(maps.queries(item).slice(0, 8).join(" "), 30);
    this.items.replaceChildren(...Array.from({ length: B }, (_, item) => new Option(`${item}: ${words(item)}`, item)));
    const fixed = { weights: "0 to 1", numbers: `0 to ${number(maps.high)}`, signed: "one for all heads" }[kind];
    this.scales.replaceChildren(new Option(fixed, "fixed"), new Option("each head its own", "head"));
    this.items.parentNode.hidden = B < 2;
    this.compares.parentNode.hidden = all.length < 2;
    this.thumbs = makeThumbs(maps, this.list, ({ layer, slot }, { shiftKey }) => {
      if (shiftKey) this.compare(layer * slots + slot);
      else this.choose(layer, slot);
    });
    this.sizes = layThumbs(this.root, this.list, maps, this.thumbs.length, this.width);
  }

  packetCame() {
    const before = this.maps;
    const maps = (this.maps = readMaps(this.model.get("packet")));
    const sizes = ["L", "B", "slots", "T", "S", "kind"].some((name) => maps[name] !== before[name]);
    const sentences = maps.B > 1 && `${maps.queries(0)}` !== `${before.queries(0)}`; // they stand in the select
    if (sizes || sentences) this.fill();
    this.recompute.answered(maps.serial);
    this.draw(); // at once: the screen shows it with the next frame
  }

  /** Draw when all changes of this moment are there; once more in the same frame it waits for the next. */
  soon() {
    if (this.due) return;
    this.due = true;
    if (this.fresh) requestAnimationFrame(() => this.draw());
    else queueMicrotask(() => this.draw());
  }

  draw() {
    this.due = false;
    if (!this.fresh) requestAnimationFrame(() => (this.fresh = false));
    this.fresh = true; // what is drawn was not on the screen yet
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
    const thumbs = `${maps.serial} ${at.item} ${scale} ${this.width} ${look.ink} ${look.dots}`;
    if (thumbs !== this.drawnThumbs) this.waiting = [...this.thumbs];
    this.drawnThumbs = thumbs;
    this.drawThumbs();
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
    this.title.replaceChildren(
      make("b", "", name),
      other || entropy === null ? "" : ` · entropy ${number(entropy)} nats`,
    );
    const notes = notesOf(maps, at).map(({ warning, text }) =>
      make("span", warning ? "odd" : "", `${warning ? "⚠ " : ""}${text}`),
    );
    this.notes.replaceChildren(...notes);
    const help = "Arrow keys move, Home and End, Page Up and Page Down choose a head.";
    this.overlay.setAttribute("aria-label", `${name}, ${maps.T} queries in rows, ${maps.S} keys in columns. ${help}`);
    this.drawOverlay();
  }

  /** Light what is pointed at, and say what it is. */
  drawOverlay() {
    if (this.due) return; // it comes with the picture
    const lit = this.hover ?? this.cursor;
    const { plan, look } = this.scene;
    const size = `${plan.width} ${plan.height} ${look.dots}`;
    if (lit) paintLit(fitCanvas(this.overlay, plan, look.dots), this.maps, this.scene, lit);
    else if (this.clear !== size) fitCanvas(this.overlay, plan, look.dots);
    this.clear = lit ? "" : size; // a canvas that is touched is laid on the screen anew
    const text = lit ? readoutOf(this.maps, this.scene, lit) : "";
    say(this.readout, text || "Point at a cell, or at a word, to see its numbers.");
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => say(this.spoken, text), SPOKEN);
  }

  /** Draw small pictures as long as there is time in this frame, and the others with the next. */
  drawThumbs() {
    const start = performance.now();
    const { item } = this.current();
    const { look } = this.scene;
    const view = { item, scale: this.model.get("scale"), palettes: this.palettes, look };
    while (this.waiting.length && performance.now() - start < BUSY) {
      paintThumb(this.waiting.shift(), this.sizes, this.maps, view);
    }
    if (this.waiting.length) requestAnimationFrame(() => this.drawThumbs());
    else this.root.dataset.drawn = this.maps.serial;
  }

  savePicture() {
    const picture = pictureOf(this.maps, this.scene, this.title.textContent, this.cursor);
    picture.toBlob(async (blob) => download("heads.png", "image/png", await blob.arrayBuffer()));
  }

  savePage() {
    this.saves = true;
    if (this.model.get("options").alone) return this.keepPage();
    this.model.set("page_requests", this.model.get("page_requests") + 1);
    this.model.save_changes();
  }

  keepPage() {
    if (this.saves) download("heads.html", "text/html", bytesOf(this.model.get("page")));
    this.saves = false; // another view may have asked for the next one
  }

  remove() {
    for (const stop of this.stops) stop();
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
