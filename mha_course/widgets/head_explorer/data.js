// What the kernel sent, as numbers, words and colours. heads_packing.py writes what is read here.

const STEPS = 65532, PLUS = 65533, MINUS = 65534, NAN = 65535;
const NAN_COLOUR = 0xff6b1ee6; // alpha, blue, green, red: a magenta that neither palette has

/** Make an element with a class and children; texts become text, never HTML. */
function make(tag, name = "", ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children);
  return node;
}

/** Write a text where another one stands. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Copy what a trait holds: front ends give it as DataView, typed array or buffer. */
function bytesOf(value) {
  if (!value) return new Uint8Array();
  const view = value.buffer ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
  return view.slice();
}

/** Read a head in JSON, and return a function that takes the blocks behind it one by one. */
function open(value) {
  const bytes = bytesOf(value), length = new DataView(bytes.buffer).getUint32(0, true);
  let at = 4 + length;
  const take = (Kind, count) => {
    const start = at;
    at += count * Kind.BYTES_PER_ELEMENT;
    return new Kind(bytes.slice(start, at).buffer);
  };
  return [JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))), take];
}

/** Turn codes into numbers. */
function decode(codes, low, high) {
  const values = new Float32Array(codes.length), step = (high - low) / STEPS;
  for (let i = 0; i < codes.length; i++) values[i] = low + codes[i] * step;
  const odd = { [PLUS]: Infinity, [MINUS]: -Infinity, [NAN]: NaN };
  for (let i = 0; i < codes.length; i++) if (codes[i] > STEPS) values[i] = odd[codes[i]];
  return values;
}

function unbit(bits, count) {
  const cells = new Uint8Array(count);
  for (let i = 0; i < count; i++) cells[i] = (bits[i >> 3] >> (7 - (i & 7))) & 1;
  return cells;
}

/** A matrix as it is drawn: each of its cells stands for across × down cells of the map. */
function matrix(values, hidden, rows, columns, down = 1, across = 1) {
  return { values, hidden, rows, columns, down, across };
}

/** Read what ``pack`` wrote: facts and matrices of all maps. */
function unpack(value) {
  const [head, take] = open(value), [L, B, H, T, S] = head.shape, [rows, columns] = head.grid;
  const count = L * B * head.slots, size = rows * columns;
  const facts = take(Float64Array, count * 8), codes = take(Uint16Array, count * size);
  const masks = head.mask ? head.mask.reduce((a, b) => a * b) : 0, each = Math.ceil(size / 8);
  const bits = take(Uint8Array, masks * each), full = new Map(), ready = new Map();
  const index = ({ layer, item, slot }) => (layer * B + item) * head.slots + slot;
  const maskOf = ({ layer, item, slot }) => {
    const [l, b, s] = [layer, item, slot].map((n, axis) => n % head.mask[axis]);
    return (l * head.mask[1] + b) * head.mask[2] + s;
  };
  const remember = (key, build) => ready.get(key) ?? ready.set(key, build()).get(key);
  const hiddenOf = (at) => remember(`mask ${maskOf(at)}`, () => unbit(bits.subarray(maskOf(at) * each), size));
  const factsOf = (at) => {
    const [low, high, entropy, least, most, upright, missing, leak] = facts.subarray(index(at) * 8, index(at) * 8 + 8);
    return { low, high, entropy, least, most, upright, missing, leak };
  };
  /** Return the matrix of a map: all its cells if they are here, else the small one. */
  const matrixOf = (at) => full.get(index(at)) ?? remember(index(at), () => {
    const { low, high } = factsOf(at), start = index(at) * size;
    const values = decode(codes.subarray(start, start + size), low, high);
    return matrix(values, head.mask && hiddenOf(at), rows, columns, Math.ceil(T / rows), Math.ceil(S / columns));
  });
  /** Keep what ``pack_one`` wrote. */
  const add = (block) => {
    const [one, takeOne] = open(block);
    if (one.serial !== head.serial) return;
    const values = decode(takeOne(Uint16Array, T * S), one.low, one.high);
    const hidden = one.mask ? unbit(takeOne(Uint8Array, Math.ceil((T * S) / 8)), T * S) : null;
    if (full.size > 5) full.delete(full.keys().next().value);
    full.set(index({ layer: one.map[0], item: one.map[1], slot: one.map[2] }), matrix(values, hidden, T, S));
  };
  const tolerance = 0.02, kind = head.low < -1e-6 * Math.max(1, head.high) ? "signed" : head.high > 1 + tolerance ? "numbers" : "weights";
  const names = (lists, item) => lists[item % lists.length];
  return {
    ...head, L, B, H, T, S, kind, index, facts: factsOf, matrix: matrixOf, add,
    whole: (at) => head.every || full.has(index(at)),
    queries: (item) => names(head.queries, item), keys: (item) => names(head.keys, item),
  };
}

const shrunk = new WeakMap(); // by mask: what is left of it at each size, one and the same array for all heads

/** Average blocks of cells that can be seen. */
function shrink(cells, by, on) {
  if (by === 1 && on === 1) return cells;
  const key = `${by} ${on}`, known = (cells.shrunk ??= new Map());
  if (known.has(key)) return known.get(key);
  const { values, rows, columns } = cells, dark = darkOf(cells), [R, C] = [Math.ceil(rows / by), Math.ceil(columns / on)];
  const total = new Float32Array(R * C), count = new Uint32Array(R * C);
  for (let i = 0, at = 0; i < rows; i++) {
    for (let to = Math.floor(i / by) * C, j = 0; j < columns; to++) {
      for (const end = Math.min(j + on, columns); j < end; j++, at++) {
        const value = values[at];
        if (dark && dark[at] && value === value) continue;
        total[to] += value;
        count[to] += 1;
      }
    }
  }
  for (let i = 0; i < total.length; i++) total[i] /= count[i] || 1;
  let hidden = null;
  if (dark) {
    if (!shrunk.has(dark)) shrunk.set(dark, new Map());
    const sizes = shrunk.get(dark);
    hidden = sizes.get(key) ?? sizes.set(key, Uint8Array.from(count, (n) => Number(!n))).get(key);
  }
  return known.set(key, matrix(total, hidden, R, C, cells.down * by, cells.across * on)).get(key);
}

/** Subtract one head from another; what one of them hides is hidden. */
function difference(a, b) {
  const values = a.values.map((value, i) => (value === b.values[i] ? 0 : value - b.values[i]));
  const gone = (m, i) => m.hidden?.[i] || m.values[i] === -Infinity;
  const hidden = new Uint8Array(values.length).map((_, i) => Number(gone(a, i) || gone(b, i)));
  for (let i = 0; i < values.length; i++) if (hidden[i] && !Number.isNaN(values[i])) values[i] = 0;
  return matrix(values, hidden, a.rows, a.columns, a.down, a.across);
}

/** Return which cells are hatched: hidden ones, and those of which a score says that they are. */
function darkOf(cells) {
  if (cells.dark !== undefined) return cells.dark;
  const { values, hidden } = cells;
  let any = false;
  for (let i = 0; i < values.length && !any; i++) any = values[i] === -Infinity;
  cells.dark = any ? new Uint8Array(values.length).map((_, i) => Number(hidden?.[i] || values[i] === -Infinity)) : hidden;
  return cells.dark;
}

/** Say whether a cell is no number. */
function anyNaN(cells) {
  if (cells.nan !== undefined) return cells.nan;
  cells.nan = false;
  for (const value of cells.values) if (value !== value) return (cells.nan = true);
  return false;
}

/** Return both palettes as 32-bit colours. */
function palettesOf(value) {
  const bytes = bytesOf(value);
  const colour = (i) => ((255 << 24) | (bytes[3 * i + 2] << 16) | (bytes[3 * i + 1] << 8) | bytes[3 * i]) >>> 0;
  const all = Uint32Array.from({ length: bytes.length / 3 }, (_, i) => colour(i));
  return { plain: all.subarray(0, 256), signed: all.subarray(256) };
}

/** Write a number for people: two decimals or fewer, a plain 0 only for nothing at all. */
function number(value, sign = false, decimals = 2) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const size = Math.abs(value), digits = size >= 10000 ? size.toExponential(decimals) : size.toFixed(decimals);
  const before = value < 0 ? "−" : sign ? "+" : "";
  return value === 0 ? "0" : /^0\.0+$/.test(digits) ? digits : before + digits;
}

const pieces = globalThis.Intl?.Segmenter ? new Intl.Segmenter() : null;

const shorts = new Map();

/** Remember what short makes of a token. */
function short(text, most = 14) {
  const key = `${most} ${text}`;
  if (shorts.size > 5000) shorts.clear();
  return shorts.get(key) ?? shorts.set(key, cut(text, most)).get(key);
}

/** Bring a token to one short line. Cut between characters as people see them: an emoji stays whole. */
function cut(text, most) {
  const line = String(text).slice(0, 400).replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/g, "�");
  if (!line.trim()) return line ? "␣" : "(empty)";
  const letters = pieces ? Array.from(pieces.segment(line), (one) => one.segment) : Array.from(line);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : line;
}

/** Keep a word that is read from the right from turning the numbers around it. */
const apart = (text) => `\u2068${short(text, 24)}\u2069`;
