// A sentence on one line, and arcs from one word to the words it attends to, as wide as the weights.
// If keys and queries differ, the keys are on a second line, and the arcs run between the two.

import {
  clamp,
  isolateWord,
  make,
  makeButton,
  number,
  setAttributes,
  setText,
  svg,
} from "./dom.js";

/**
 * What is drawn.
 * @typedef {object} Sentence
 * @property {string[]} queries
 * @property {string[]} keys The same as the queries if a sentence attends to itself.
 * @property {ArrayLike<number>} weights T × S, of one head.
 * @property {ArrayLike<number>} [hidden] 1 where a cell is hidden.
 * @property {number} follow Which query is followed.
 * @property {string} colour Of arcs and words.
 * @property {number} width The available pixels.
 * @property {number} height Of words, arcs and numbers together.
 */

/** Weights below it are not printed, and below half of it not drawn. */
export const LEAST = 0.05;
const LARGEST = 20; // pixels of a word
const SMALLEST = 12;
const NARROWEST = 16; // pixels of an upright word
const LONGEST = 16; // characters of a word
const BELOW = 62; // pixels for words and their numbers
const THICKEST = 18; // pixels of an arc whose weight is 1

/** Return an arc above one line, or a loop above one word. */
function arcAbove(from, to, floor, tallest) {
  const across = Math.abs(to - from);
  if (across < 1) {
    const up = floor - Math.min(50, tallest * 1.3);
    return `M${from - 5} ${floor}C${from - 30} ${up} ${from + 30} ${up} ${from + 5} ${floor}`;
  }
  const up = floor - Math.min(tallest, 24 + across * 0.55) / 0.75; // the curve reaches 3/4 of its handles
  const lean = across * 0.12;
  const [left, right] = from < to ? [from + lean, to - lean] : [from - lean, to + lean];
  return `M${from} ${floor}C${left} ${up} ${right} ${up} ${to} ${floor}`;
}

const curveBetween = (from, to, top, bottom) =>
  `M${from} ${top}C${from} ${(top + bottom) / 2} ${to} ${(top + bottom) / 2} ${to} ${bottom}`;

/** One line of words that can be pressed. */
class Line {
  node = make("div", "words");
  buttons = [];
  /** `svg` is laid out together with the words, which it must not widen. */
  constructor(press, svg) {
    this.press = press;
    this.svg = svg;
  }
  /** Write words, as large as fits, upright where they do not; return whether anything moved. */
  write(words, width) {
    const key = `${width} ${JSON.stringify(words)}`;
    if (key === this.key) return false;
    this.key = key;
    setAttributes(this.svg, { width }); // until it is known how wide the words are
    this.buttons = words.map((word, i) => {
      const button = makeButton("word", "", () => this.press(i));
      button.append(make("span", "", isolateWord(word, LONGEST)), make("small"));
      button.dataset.index = i;
      return button;
    });
    this.node.replaceChildren(...this.buttons);
    this.node.classList.remove("upright");
    this.node.style.fontSize = `${LARGEST}px`;
    const needs = this.node.scrollWidth;
    const size = Math.max(SMALLEST, Math.floor(LARGEST * Math.min(1, width / needs)));
    this.node.style.fontSize = `${size}px`;
    const room = width / words.length;
    this.upright = this.node.scrollWidth > width && room >= NARROWEST;
    if (this.upright) {
      this.node.classList.add("upright");
      for (const button of this.buttons) button.style.width = `${room}px`;
    }
    const middle = ({ offsetLeft, offsetWidth }) => offsetLeft + offsetWidth / 2;
    this.middles = this.buttons.map(middle);
    return true;
  }
  /** Show the weights below the words. */
  mark(weights, { hidden, followed = -1, passive = false }) {
    this.buttons.forEach((button, i) => {
      const weight = weights?.[i] ?? 0;
      const shown = weight >= LEAST;
      button.classList.toggle("followed", i === followed);
      button.classList.toggle("attended", shown);
      button.classList.toggle("hidden-word", Boolean(hidden?.[i]));
      button.style.setProperty("--weight", Math.min(weight, 1) || 0);
      button.disabled = passive;
      button.ariaPressed = passive ? null : i === followed;
      button.tabIndex = i === followed ? 0 : -1;
      setText(button.lastChild, shown ? number(weight) : Number.isNaN(weight) ? "NaN" : "");
    });
  }
}

/** `onHover(row | null)` is called for a word that is pointed at, `onFollow(row)` for one that is chosen. */
export class Arcs {
  paths = svg("g");
  svg = svg("svg", { "aria-hidden": "true" }, this.paths);

  constructor({ onHover, onFollow }) {
    this.onFollow = onFollow;
    this.keyLine = new Line(onFollow, this.svg);
    this.queryLine = new Line(onFollow, this.svg);
    const sheet = make("div", "sheet", this.queryLine.node, this.svg, this.keyLine.node);
    this.node = make("div", { className: "mha-arcs", role: "group" }, sheet);
    const indexAt = (event) => event.target.closest?.(".queries > .word")?.dataset.index;
    this.node.addEventListener("pointerover", (event) => {
      const index = indexAt(event);
      onHover(index === undefined ? null : Number(index));
    });
    this.node.addEventListener("pointerleave", () => onHover(null));
  }

  /** Follow the word that an arrow key, Home or End leads to; say whether it was one of these. */
  press({ key }) {
    const { follow, queries } = this.shown;
    const T = queries.length;
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -T, End: T };
    if (!Object.hasOwn(steps, key)) return false;
    const row = clamp(follow + steps[key], 0, T - 1);
    this.onFollow(row);
    this.queries.buttons[row].focus();
    return true;
  }

  /** @param {Sentence} sentence */
  draw(sentence) {
    const { queries, keys, weights, hidden, follow, colour, width, height } = sentence;
    this.two = keys !== queries && `${keys}` !== `${queries}`;
    this.queries = this.two ? this.queryLine : this.keyLine; // the line whose words are followed
    this.queryLine.node.hidden = !this.two;
    for (const line of [this.queryLine, this.keyLine])
      line.node.classList.toggle("queries", line === this.queries);
    this.node.style.setProperty("--head", colour);
    this.node.style.height = `${height}px`;
    const lines = this.two ? [this.queryLine.write(queries, width)] : [];
    lines.push(this.keyLine.write(keys, width));
    if (lines.includes(true) || this.size !== `${width} ${height}`) {
      this.measure(width, height);
      this.node.scrollLeft = this.queries.middles[follow] - width / 2; // of a long sentence
    }
    const S = keys.length;
    const row = Array.from({ length: S }, (_, j) => weights[follow * S + j]);
    const hiddenRow = hidden && Array.from({ length: S }, (_, j) => hidden[follow * S + j]);
    const followed = this.two ? -1 : follow;
    this.keyLine.mark(row, { hidden: hiddenRow, followed, passive: this.two });
    if (this.two) this.queryLine.mark(null, { followed: follow });
    this.shown = sentence;
    this.drawArcs(row, this.queries.middles[follow]);
  }

  measure(width, height) {
    this.size = `${width} ${height}`;
    const above = this.two ? this.queryLine.node.offsetHeight : 0;
    const below = this.keyLine.upright ? this.keyLine.node.offsetHeight : BELOW;
    this.space = Math.max(30, height - above - below);
    const wide = Math.max(width, this.keyLine.node.scrollWidth);
    setAttributes(this.svg, { width: wide, height: this.space });
  }

  /** Draw an arc to each key; the style sheet moves those that were there to their new places. */
  drawArcs(row, from) {
    const floor = this.space - 2;
    const { middles } = this.keyLine;
    if (this.paths.childElementCount !== row.length)
      this.paths.replaceChildren(...row.map(() => svg("path")));
    row.forEach((weight, j) => {
      const d = this.two
        ? curveBetween(from, middles[j], 2, floor)
        : arcAbove(from, middles[j], floor, this.space - THICKEST);
      const faint = weight >= LEAST / 2 ? 0.15 : 0; // NaN is also not drawn
      const opacity = weight >= LEAST ? 0.4 + 0.5 * Math.min(weight, 1) : faint;
      const width = Math.max(1, THICKEST * weight) || 1;
      setAttributes(this.paths.children[j], { d, "stroke-width": width, opacity });
    });
  }
}
