// All heads as small pictures, and one of them large. The other files of heads_*.js stand before this one.

const BUSY = 6; // milliseconds that small pictures may take of a frame
const ENTROPY = "Entropy of a head: mean over its rows, in nats; 0 means that each row looks at one key alone.";
const KEYS = [
  ["In the large picture", "arrow keys move from cell to cell, Home and End go to the ends of the row, Page Up and Page Down to another head, Escape leaves."],
  ["In the small pictures", "arrow keys, Home and End choose a head; Shift and click, or Shift and Enter, compares with another."],
  ["With a painted mask", "click or drag in the large picture, or press Space: a cell is hidden or seen."],
];

function download(name, type, data) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([data], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function render({ model, el }) {
  const root = make("div", "mha-heads"), palettes = palettesOf(model.get("palettes")), alone = Boolean(model.get("options").alone);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Heads of attention");
  el.append(root);
  const state = { packet: Object.assign(unpack(model.get("packet")), { alone }), scene: null, thumbs: [], hover: null, cursor: null };
  let [room, due, fresh, saving, speaking, missing, asked, todo, seen, clear] = [0, false, false, 0, 0, "", false, [], "", ""];

  const current = () => ({
    layer: clamp(model.get("layer"), state.packet.L - 1), item: clamp(model.get("item"), state.packet.B - 1), slot: clamp(model.get("head"), state.packet.slots - 1),
  });
  const besideOf = () => {
    const flat = model.get("beside"), at = current();
    const other = { layer: Math.floor(flat / state.packet.slots), item: at.item, slot: flat % state.packet.slots };
    return flat < 0 || other.layer >= state.packet.L || state.packet.index(other) === state.packet.index(at) ? null : other;
  };
  function put(values) {
    for (const [key, value] of Object.entries(values)) model.set(key, value);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), 150); // the kernel need not follow every step
  }
  const choose = (layer, slot) => put({ layer: clamp(layer, state.packet.L - 1), head: clamp(slot, state.packet.slots - 1) });
  const compare = (flat) => put({ beside: flat === model.get("beside") ? -1 : flat });

  const asking = makeAsking(model, () => {
    const at = current(), hidden = state.packet.every ? state.packet.matrix(at).hidden : null;
    return { rows: state.packet.T, columns: state.packet.S, seen: new Uint8Array(state.packet.T * state.packet.S).map((_, i) => Number(!hidden?.[i])) };
  });
  const field = (word, node) => make("label", "field", make("span", "", word), node);
  const [items, besides, scales] = [make("select"), make("select"), make("select")];
  const button = (text, spoken, action) => {
    const node = make("button", "", text);
    node.type = "button";
    node.title = spoken;
    node.addEventListener("click", action);
    return node;
  };
  const saves = [button("PNG", "Save this picture", savePicture), button("HTML", "Save a page with all heads that needs no Python", savePage)];
  const bar = make("div", "bar", field("sentence", items), field("compare with", besides), field("colours", scales), make("span", "saves", ...saves));
  const list = make("div", "thumbs"), title = make("p", "title"), base = make("canvas", "base"), glass = make("canvas", "glass");
  const [readout, notes, spoken] = [make("p", "readout"), make("p", "notes"), make("p", "spoken")];
  const paper = make("div", "paper", base, glass), view = make("div", "view", title, paper, readout, notes, spoken);
  const help = make("details", "keys", make("summary", "", "Keys"), ...KEYS.map(([where, what]) => make("p", "", make("b", "", where), `: ${what}`)), make("p", "", ENTROPY));
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", "Heads: arrow keys choose, Shift+Enter compares");
  glass.tabIndex = 0;
  glass.setAttribute("role", "application");
  glass.setAttribute("aria-roledescription", "heat map");
  spoken.setAttribute("aria-live", "polite");
  root.append(asking.node, bar, make("div", "body", make("div", "side", list), view), help);

  /** Fill the selects anew where what there is has changed. */
  function fill() {
    const flats = Array.from({ length: state.packet.L * state.packet.slots }, (_, flat) => flat);
    const name = (flat) => nameOf(state.packet, { layer: Math.floor(flat / state.packet.slots), slot: flat % state.packet.slots }, true);
    besides.replaceChildren(new Option("nothing", -1), ...flats.map((flat) => new Option(name(flat), flat)));
    const words = (item) => short(state.packet.queries(item).slice(0, 8).join(" "), 30);
    items.replaceChildren(...Array.from({ length: state.packet.B }, (_, item) => new Option(`${item}: ${words(item)}`, item)));
    items.parentNode.hidden = state.packet.B < 2;
    besides.parentNode.hidden = flats.length < 2;
    const fixed = { weights: "0 to 1", numbers: `0 to ${number(state.packet.high)}`, signed: "one for all heads" }[state.packet.kind];
    scales.replaceChildren(new Option(fixed, "fixed"), new Option("each head its own", "head"));
    state.thumbs = makeThumbs(state.packet, list, (at, event) => (event.shiftKey ? compare(at.layer * state.packet.slots + at.slot) : choose(at.layer, at.slot)));
    state.sizes = layThumbs(root, list, state.packet, state.thumbs.length, room);
  }
  const size = (canvas, { width, height }, dots) => {
    const [w, h] = [Math.round(width * dots), Math.round(height * dots)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = canvas.getContext("2d");
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  };
  function drawLarge(look, width) {
    state.scene = compose(state.packet, palettes, { at: current(), beside: besideOf(), scale: model.get("scale") }, look, width);
    const { at, beside, plan, other } = state.scene;
    paper.style.height = `${plan.height}px`;
    paintAll(size(base, plan, look.dots), state.packet, state.scene);
    base.dataset.place = [plan.box.x, plan.box.y, plan.cell.w, plan.cell.h].join(" "); // for those who measure
    const { entropy } = state.packet.facts(at);
    const name = other ? `${nameOf(state.packet, at)} − ${nameOf(state.packet, beside)}` : nameOf(state.packet, at);
    title.replaceChildren(make("b", "", name), other || Number.isNaN(entropy) ? "" : ` · entropy ${number(entropy)} nats`);
    notes.replaceChildren(...notesOf(state.packet, at, state.scene).map(([kind, text]) => make("span", kind, `${kind ? "⚠ " : ""}${text}`)));
    glass.setAttribute("aria-label", `${name}, ${state.packet.T} queries in rows, ${state.packet.S} keys in columns. Arrow keys move, Home and End, Page Up and Page Down choose a head.`);
    drawGlass();
  }
  function drawGlass() {
    const lit = state.hover ?? state.cursor, { plan, look, at, beside } = state.scene, here = `${plan.width} ${plan.height} ${look.dots}`;
    if (lit) paintLit(size(glass, plan, look.dots), state.packet, state.scene, lit);
    else if (clear !== here) size(glass, plan, look.dots);
    clear = lit ? "" : here; // a canvas that is touched is laid on the screen anew
    const text = readoutOf(state.packet, at, beside, lit, state.scene);
    say(readout, text || "Point at a cell, or at a word, to see its numbers.");
    clearTimeout(speaking);
    speaking = setTimeout(() => say(spoken, text), 350); // what is passed over is not read out
  }
  function drawThumbs() {
    const start = performance.now(), { look } = state.scene;
    while (todo.length && performance.now() - start < BUSY) {
      const thumb = todo.shift(), { item } = current(), range = limits(state.packet, { ...thumb.at, item }, model.get("scale"));
      paintThumb(thumb, state.sizes, state.packet, item, { palette: range.low < 0 ? palettes.signed : palettes.plain, ...range }, look);
    }
    if (todo.length) requestAnimationFrame(drawThumbs);
    else root.dataset.drawn = state.packet.serial;
  }
  function draw() {
    due = false;
    if (!fresh) requestAnimationFrame(() => { fresh = false; });
    fresh = true; // what is drawn was not on the screen yet
    const look = lookOf(root), width = view.clientWidth; // asked for first: after a change it would be laid out twice
    if (!root.isConnected || !width) return;
    const at = current(), beside = besideOf(), scale = model.get("scale");
    items.value = at.item;
    for (const one of besides.options) one.disabled = +one.value === at.layer * state.packet.slots + at.slot; // arrow keys pass it
    besides.value = beside ? beside.layer * state.packet.slots + beside.slot : -1;
    scales.value = scale;
    if (state.cursor) state.cursor = { row: clamp(state.cursor.row, state.packet.T - 1), column: clamp(state.cursor.column, state.packet.S - 1) };
    markThumbs(state.thumbs, state.packet, at, beside);
    drawLarge(look, width);
    const now = `${state.packet.serial} ${at.item} ${scale} ${room} ${state.scene.look.ink} ${state.scene.look.dots}`;
    if (now !== seen) todo = [...state.thumbs];
    seen = now;
    drawThumbs();
    root.dataset.serial = state.packet.serial;
    performance.mark("mha-heads-drawn");
    fetchWhole([at, beside]);
  }
  /** Draw when all changes of this moment are there; once more in the same frame it waits for the next. */
  const soon = () => {
    if (due) return;
    due = true;
    if (!fresh) queueMicrotask(draw);
    else requestAnimationFrame(draw);
  };
  /** Ask for all cells of what is shown, where only means are here. */
  function fetchWhole(wanted) {
    const lacking = alone ? null : wanted.find((at) => at && !state.packet.whole(at));
    if (!lacking) return;
    const key = `${state.packet.serial} ${state.packet.index(lacking)}`;
    if (missing === key) return; // it is on its way
    missing = key;
    model.set("wanted", { serial: state.packet.serial, map: [lacking.layer, lacking.item, lacking.slot], key, count: (model.get("wanted").count ?? 0) + 1 });
    model.save_changes();
  }

  function savePicture() {
    pictureOf(state.packet, state.scene, title.textContent, state.cursor).toBlob(async (blob) => {
      download("heads.png", "image/png", await blob.arrayBuffer());
    });
  }
  function savePage() {
    if (alone) return keepPage();
    asked = true;
    model.set("asked", model.get("asked") + 1);
    model.save_changes();
  }
  function keepPage() {
    if (asked || alone) download("heads.html", "text/html", bytesOf(model.get("page")));
    asked = false;
  }

  const acts = { current, choose, compare, drawGlass, busy: () => due, paints: () => asking.painting() && state.packet.every };
  const stopKeys = pressKeys(state, { root, glass, list }, pointAt(state, glass, asking, acts), acts);
  items.addEventListener("change", () => put({ item: Number(items.value) }));
  besides.addEventListener("change", () => put({ beside: Number(besides.value) }));
  scales.addEventListener("change", () => put({ scale: scales.value }));
  const packetCame = () => {
    const before = state.packet;
    performance.mark("mha-heads-answered");
    state.packet = Object.assign(unpack(model.get("packet")), { alone });
    if (["L", "B", "slots", "T", "S", "kind"].some((key) => state.packet[key] !== before[key]) || (state.packet.B > 1 && `${state.packet.queries(0)}` !== `${before.queries(0)}`)) fill();
    asking.packetCame(state.packet.serial);
    draw(); // at once: the screen shows it with the next frame
  };
  const fullCame = () => {
    state.packet.add(model.get("full"));
    missing = "";
    soon();
  };
  const heard = [["packet", packetCame], ["full", fullCame], ["page", keepPage], ...["layer", "item", "head", "beside", "scale"].map((key) => [key, soon])];
  for (const [key, call] of heard) model.on(`change:${key}`, call);
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    state.sizes = layThumbs(root, list, state.packet, state.thumbs.length, room);
    draw();
  });
  const theme = new MutationObserver(soon), dark = matchMedia("(prefers-color-scheme: dark)");
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  dark.addEventListener("change", soon);
  fill();
  watch.observe(root);
  return () => {
    asking.stop();
    for (const timer of [saving, speaking]) clearTimeout(timer);
    watch.disconnect();
    theme.disconnect();
    dark.removeEventListener("change", soon);
    stopKeys();
    for (const [key, call] of heard) model.off(`change:${key}`, call);
    root.remove();
  };
}

export default { render };
