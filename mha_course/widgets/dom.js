// Building blocks of all pictures in the browser: elements, short words, numbers.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element with a class, or several properties, and children; texts become text, never HTML. */
export function make(tag, properties = "", ...children) {
  const node = document.createElement(tag);
  if (typeof properties !== "string") Object.assign(node, properties);
  else if (properties) node.className = properties;
  node.append(...children);
  return node;
}

/** Make an element of a drawing, with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

export function setAttributes(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

/** Make a button; `spoken` is its name where the words on it do not say enough. */
export function makeButton(name, text, action, spoken = "") {
  const node = make("button", name, text);
  node.type = "button"; // inside a form the default would send it
  if (spoken) node.setAttribute("aria-label", spoken);
  node.addEventListener("click", action);
  return node;
}

/** Write a text if it differs. The same text again would be laid out, and read aloud, once more. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Whether a key belongs to the browser or to JupyterLab; Shift is ours. */
export const hasModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** Whether a key is JupyterLab's or the browser's even inside a widget: it leaves the widget or runs the cell. */
const leaves = (event) =>
  hasModifier(event) ||
  ["Tab", "Escape"].includes(event.key) ||
  (event.shiftKey && event.key === "Enter");

/** Keep Space from scrolling the page away, where it does nothing else, as on a slider. */
function holdPage(event, node) {
  const answers = 'button, summary, select, textarea, input:not([type="range"])';
  if (event.key === " " && !hasModifier(event) && !node.matches(answers)) event.preventDefault();
}

/** Keep keys from JupyterLab, which would take them for commands: x cuts the cell. */
export function keepKeys(root) {
  root.addEventListener("keydown", (event) => {
    holdPage(event, event.target);
    if (!leaves(event)) event.stopPropagation();
  });
}

/**
 * Handle a picture's keys, and keep others from JupyterLab, as keepKeys does. JupyterLab listens on the document, so
 * we listen on the window. `answer(event, target)` says whether a key was one of ours; fields and buttons answer by
 * themselves. Return how to stop.
 */
export function catchKeys(root, answer) {
  function press(event) {
    const path = event.composedPath();
    if (!path.includes(root) || hasModifier(event) || event.key === "Tab") return;
    const ours = answer(event, path[0]);
    if (ours) {
      event.preventDefault();
      event.stopImmediatePropagation(); // what holds this picture also listens on the window
    } else {
      holdPage(event, path[0]);
      if (!leaves(event)) event.stopPropagation();
    }
  }
  window.addEventListener("keydown", press, true);
  return () => window.removeEventListener("keydown", press, true);
}

/** Call a function when one of these traits changes, and return how to stop. */
export function followModel(model, names, call) {
  for (const name of names) model.on(`change:${name}`, call);
  return () => {
    for (const name of names) model.off(`change:${name}`, call);
  };
}

const SPOKEN = 350; // milliseconds until a number is read aloud: what is passed over is not

/** A paragraph for screen readers, which gets its text once nothing has moved for a moment. */
export function makeSpeaker() {
  const node = make("p", { className: "spoken", ariaLive: "polite" });
  let timer = null;
  function speak(words) {
    clearTimeout(timer);
    timer = setTimeout(() => setText(node, words), SPOKEN);
  }
  return { node, speak, stop: () => clearTimeout(timer) };
}

/** Copy what a trait holds: front ends give it as DataView, typed array or buffer, which need not begin at a multiple of 4. */
export function bytesOf(value) {
  return new Uint8Array(value.buffer ?? value, value.byteOffset, value.byteLength).slice();
}

/** Write a number for people: two decimals or fewer, a plain 0 only for nothing at all. */
export function number(value, sign = false, decimals = 2) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = size >= 10000 ? size.toExponential(decimals) : size.toFixed(decimals);
  if (/^0\.0+$/.test(digits)) return digits;
  return (value < 0 ? "−" : sign ? "+" : "") + digits;
}

export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
export const product = (numbers) => numbers.reduce((all, number) => all * number, 1);

/** Return black or white, whichever is read better on a colour (red, green, blue of 255): at least 4.5 to 1. */
export function inkOn(colour) {
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = colour.map((byte) => linear(byte / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 ? "#fff" : "#000"; // WCAG's relative luminance
}

// Control characters, and marks that change the direction of the text after them, even of other words.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Bring a text from people to one line, without marks that turn its direction. */
export const visible = (text) =>
  `${text}`
    .replace(/\r\n|[\n\r\u0085\u2028\u2029]/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(UNSEEN, "�");

const segmenter = globalThis.Intl?.Segmenter ? new Intl.Segmenter() : null;
const shortened = new Map(); // cutting into characters is slow, and the same words come with every frame

/** Bring a word to one short line. */
export function short(text, most = 14) {
  const key = `${most} ${text}`;
  if (shortened.size > 5000) shortened.clear();
  return shortened.get(key) ?? shortened.set(key, cut(text, most)).get(key);
}

const FROM_RIGHT =
  /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]|[\ud802\ud803\ud83a\ud83b][\udc00-\udfff]/;

/** Shorten a word, and keep a right-to-left one from reordering what is around it. */
export function isolateWord(text, most = 24) {
  const word = short(text, most);
  return FROM_RIGHT.test(word) ? `\u2068${word}\u2069` : word;
}

/** Cut between characters as people see them: an emoji stays whole. */
function cut(text, most) {
  const line = visible(String(text).slice(0, 400));
  if (!line.trim()) return line ? "␣" : "(empty)";
  const letters = segmenter
    ? Array.from(segmenter.segment(line), ({ segment }) => segment)
    : Array.from(line);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : line;
}
