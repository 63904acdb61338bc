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
  let packet = Object.assign(unpack(model.get("packet")), { alone });
  let [hover, cursor, scene, room, frame, saving, speaking, brush, missing, asked] = [null, null, null, 0, 0, 0, 0, null, 0, false];
  let [thumbs, todo, seen] = [[], [], ""];

  const clamp = (value, most) => Math.max(0, Math.min(most, value));
  const current = () => ({
    layer: clamp(model.get("layer"), packet.L - 1), item: clamp(model.get("item"), packet.B - 1), slot: clamp(model.get("head"), packet.slots - 1),
  });
  const besideOf = () => {
    const flat = model.get("beside"), at = current();
    const other = { layer: Math.floor(flat / packet.slots), item: at.item, slot: flat % packet.slots };
    return flat < 0 || other.layer >= packet.L || packet.index(other) === packet.index(at) ? null : other;
  };
  function put(values) {
    for (const [key, value] of Object.entries(values)) model.set(key, value);
    clearTimeout(saving);
    saving = setTimeout(() => model.save_changes(), 150); // the kernel need not follow every step
  }
  const choose = (layer, slot) => put({ layer: clamp(layer, packet.L - 1), head: clamp(slot, packet.slots - 1) });
  const compare = (flat) => put({ beside: flat === model.get("beside") ? -1 : flat });

  const asking = makeAsking(model, () => {
    const at = current(), hidden = packet.every ? packet.matrix(at).hidden : null;
    return { rows: packet.T, columns: packet.S, seen: new Uint8Array(packet.T * packet.S).map((_, i) => Number(!hidden?.[i])) };
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
    const flats = Array.from({ length: packet.L * packet.slots }, (_, flat) => flat);
    const name = (flat) => nameOf(packet, { layer: Math.floor(flat / packet.slots), slot: flat % packet.slots }, true);
    besides.replaceChildren(new Option("nothing", -1), ...flats.map((flat) => new Option(name(flat), flat)));
    const words = (item) => short(packet.queries(item).slice(0, 8).join(" "), 30);
    items.replaceChildren(...Array.from({ length: packet.B }, (_, item) => new Option(`${item}: ${words(item)}`, item)));
    items.parentNode.hidden = packet.B < 2;
    besides.parentNode.hidden = flats.length < 2;
    const fixed = { weights: "0 to 1", numbers: `0 to ${number(packet.high)}`, signed: "one for all heads" }[packet.kind];
    scales.replaceChildren(new Option(fixed, "fixed"), new Option("each head its own", "head"));
    thumbs = makeThumbs(packet, list, (at, event) => (event.shiftKey ? compare(at.layer * packet.slots + at.slot) : choose(at.layer, at.slot)));
    layThumbs(root, list, packet, thumbs.length, room);
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
  function drawLarge() {
    scene = compose(packet, palettes, { at: current(), beside: besideOf(), scale: model.get("scale") }, lookOf(root), view.clientWidth);
    const { at, beside, plan, look, other } = scene;
    paper.style.height = `${plan.height}px`;
    paintAll(size(base, plan, look.dots), packet, scene);
    const { entropy } = packet.facts(at);
    const name = other ? `${nameOf(packet, at)} − ${nameOf(packet, beside)}` : nameOf(packet, at);
    title.replaceChildren(make("b", "", name), other || Number.isNaN(entropy) ? "" : ` · entropy ${number(entropy)} nats`);
    notes.replaceChildren(...notesOf(packet, at, scene).map(([kind, text]) => make("span", kind, `${kind ? "⚠ " : ""}${text}`)));
    glass.setAttribute("aria-label", `${name}, ${packet.T} queries in rows, ${packet.S} keys in columns. Arrow keys move, Home and End, Page Up and Page Down choose a head.`);
    drawGlass();
  }
  function drawGlass() {
    const lit = hover ?? cursor, { plan, look, at, beside } = scene, context = size(glass, plan, look.dots);
    if (lit) paintLit(context, packet, scene, lit);
    const text = readoutOf(packet, at, beside, lit, scene);
    readout.textContent = text || "Point at a cell, or at a word, to see its numbers.";
    clearTimeout(speaking);
    speaking = setTimeout(() => { spoken.textContent = text; }, 350); // what is passed over is not read out
  }
  function drawThumbs() {
    const start = performance.now(), look = lookOf(root);
    while (todo.length && performance.now() - start < BUSY) {
      const thumb = todo.shift(), { item } = current(), range = limits(packet, { ...thumb.at, item }, model.get("scale"));
      paintThumb(thumb, packet, item, range.low < 0 ? palettes.signed : palettes.plain, range, look);
    }
    if (todo.length) requestAnimationFrame(drawThumbs);
    else root.dataset.drawn = packet.serial;
  }
  function draw() {
    frame = 0;
    if (!root.isConnected || !view.clientWidth) return;
    const at = current(), beside = besideOf(), scale = model.get("scale");
    items.value = at.item;
    besides.value = beside ? beside.layer * packet.slots + beside.slot : -1;
    scales.value = scale;
    if (cursor) cursor = { row: clamp(cursor.row, packet.T - 1), column: clamp(cursor.column, packet.S - 1) };
    markThumbs(thumbs, packet, at, beside);
    drawLarge();
    const now = `${packet.serial} ${at.item} ${scale} ${room} ${scene.look.ink} ${scene.look.dots}`;
    if (now !== seen) todo = [...thumbs];
    seen = now;
    drawThumbs();
    root.dataset.serial = packet.serial;
    performance.mark("mha-heads-drawn");
    fetchWhole([at, beside]);
  }
  const soon = () => { frame = frame || requestAnimationFrame(draw); };
  /** Ask for all cells of what is shown, where only means are here. */
  function fetchWhole(wanted) {
    const lacking = alone ? null : wanted.find((at) => at && !packet.whole(at));
    if (!lacking) return;
    const key = `${packet.serial} ${packet.index(lacking)}`;
    if (model.get("wanted").key === key && missing === key) return;
    missing = key;
    model.set("wanted", { serial: packet.serial, map: [lacking.layer, lacking.item, lacking.slot], key, count: (model.get("wanted").count ?? 0) + 1 });
    model.save_changes();
  }

  const place = (event) => {
    const { left, top } = glass.getBoundingClientRect(), { box, cell, bars } = scene.plan;
    const [x, y] = [event.clientX - left, event.clientY - top];
    const row = Math.floor((y - box.y) / cell.h), beneath = y > box.y + box.h;
    const slant = y < box.y ? (box.y - y) / Math.tan(SLANT) : 0; // words above the columns lean to the right
    const column = Math.floor((x - box.x - slant) / cell.w);
    const [rows, columns] = [row >= 0 && row < packet.T, column >= 0 && column < packet.S];
    if (rows && x < box.x) return { row };
    if (rows && columns) return { row, column };
    if (columns && y < box.y) return { column };
    return columns && beneath && y < bars.y + bars.h && (hover ?? cursor)?.row != null ? { row: (hover ?? cursor).row, column } : null;
  };
  /** Hide or show the cell under the brush: all cells of a stroke become what the first one became. */
  function stroke({ row, column } = {}) {
    if (row == null || column == null) return;
    const index = row * packet.S + column;
    if (!brush) {
      const { hidden } = packet.matrix(current());
      brush = { seen: new Uint8Array(packet.T * packet.S).map((_, i) => Number(!hidden?.[i])), to: Number(Boolean(hidden?.[index])) };
    }
    if (brush.seen[index] === brush.to && brush.last !== undefined) return;
    brush.last = index;
    brush.seen[index] = brush.to;
    asking.paint({ rows: packet.T, columns: packet.S, seen: brush.seen });
  }
  const paints = () => asking.painting() && packet.every;
  glass.addEventListener("pointermove", (event) => {
    hover = scene && place(event);
    if (brush) stroke(hover ?? {});
    if (scene && !frame) drawGlass();
  });
  glass.addEventListener("pointerleave", () => {
    hover = null;
    if (scene) drawGlass();
  });
  glass.addEventListener("pointerdown", (event) => {
    const at = scene && place(event);
    if (at?.row == null || at.column == null) return;
    cursor = at;
    if (paints()) {
      glass.setPointerCapture(event.pointerId);
      stroke(at);
    }
    drawGlass();
  });
  const lift = () => { brush = null; };
  glass.addEventListener("pointerup", lift);
  glass.addEventListener("pointercancel", lift);
  glass.addEventListener("focus", () => {
    cursor = cursor ?? { row: 0, column: 0 };
    if (scene && glass.matches(":focus-visible")) drawGlass();
  });

  function savePicture() {
    const { plan, look } = scene, canvas = canvasOf(plan.width * 2, (plan.height + 30) * 2), context = canvas.getContext("2d");
    context.scale(2, 2);
    context.fillStyle = look.paper;
    context.fillRect(0, 0, plan.width, plan.height + 30);
    context.fillStyle = look.ink;
    context.font = `bold ${look.font}`;
    context.textBaseline = "middle";
    context.fillText(title.textContent, 10, 18);
    context.translate(0, 30);
    const fine = { ...scene, look: { ...look, dots: 2 } };
    paintAll(context, packet, fine);
    if (cursor) paintLit(context, packet, fine, cursor);
    canvas.toBlob(async (blob) => download("heads.png", "image/png", await blob.arrayBuffer()));
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

  const step = (row, column) => {
    cursor = { row: clamp(cursor.row + row, packet.T - 1), column: clamp(cursor.column + column, packet.S - 1) };
    hover = null;
  };
  const far = 1e6, turn = (by) => choose(current().layer, current().slot + by);
  const inLarge = {
    ArrowRight: () => step(0, 1), ArrowLeft: () => step(0, -1), ArrowDown: () => step(1, 0), ArrowUp: () => step(-1, 0),
    Home: () => step(0, -far), End: () => step(0, far), PageUp: () => turn(-1), PageDown: () => turn(1),
    Escape: () => { cursor = null; },
    " ": () => { if (paints()) stroke(cursor); lift(); },
  };
  function pressLarge(key) {
    if (!inLarge[key]) return false;
    cursor = cursor ?? { row: 0, column: 0 };
    inLarge[key]();
    drawGlass();
    return true;
  }
  function pressThumb(key, shift) {
    const { layer, slot } = current(), many = packet.L > 1, across = many ? packet.slots : getComputedStyle(list).gridTemplateColumns.split(" ").length;
    const flat = layer * packet.slots + slot, last = packet.L * packet.slots - 1;
    const to = { ArrowRight: flat + 1, ArrowLeft: flat - 1, ArrowDown: flat + across, ArrowUp: flat - across, Home: 0, End: last }[key];
    const focused = thumbs.findIndex(({ node }) => node === document.activeElement || node === root.getRootNode().activeElement);
    if (shift && key === "Enter") compare(focused);
    else if (to === undefined) return false;
    else if (to >= 0 && to <= last) {
      if (shift) thumbs[clamp(focused + to - flat, last)].node.focus(); // to compare, without leaving the head
      else {
        choose(Math.floor(to / packet.slots), to % packet.slots);
        thumbs[to].node.focus();
      }
    }
    return true;
  }
  const press = (event) => { // on the window, because JupyterLab listens on the document before we would hear of it
    const path = event.composedPath(), target = path[0];
    if (!path.includes(root) || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    if (["INPUT", "SELECT"].includes(target.tagName)) return event.key === "Escape" ? undefined : event.stopPropagation();
    const ours = target === glass ? pressLarge(event.key) : list.contains(target) && pressThumb(event.key, event.shiftKey);
    const answers = [" ", "Enter"].includes(event.key) && ["BUTTON", "SUMMARY"].includes(target.tagName); // by itself
    if (ours || answers) event.stopPropagation();
    if (ours) event.preventDefault();
  };
  window.addEventListener("keydown", press, true);

  items.addEventListener("change", () => put({ item: Number(items.value) }));
  besides.addEventListener("change", () => put({ beside: Number(besides.value) }));
  scales.addEventListener("change", () => put({ scale: scales.value }));
  const packetCame = () => {
    const before = packet;
    packet = Object.assign(unpack(model.get("packet")), { alone });
    if (["L", "B", "slots", "T", "S", "kind"].some((key) => packet[key] !== before[key]) || packet.B > 1) fill();
    asking.packetCame(packet.serial);
    soon();
  };
  const fullCame = () => {
    packet.add(model.get("full"));
    soon();
  };
  const heard = [["packet", packetCame], ["full", fullCame], ["page", keepPage], ...["layer", "item", "head", "beside", "scale"].map((key) => [key, soon])];
  for (const [key, call] of heard) model.on(`change:${key}`, call);
  const watch = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === room || !contentRect.width) return;
    room = contentRect.width;
    layThumbs(root, list, packet, thumbs.length, room);
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
    window.removeEventListener("keydown", press, true);
    for (const [key, call] of heard) model.off(`change:${key}`, call);
    root.remove();
  };
}

export default { render };
