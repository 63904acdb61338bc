// A model's training as a film: its heads, a sentence with arcs, and curves; live while it trains, then a player.

import { Arcs } from "../../widgets/arcs.js";
import {
  bytesOf,
  followModel,
  isolateWord,
  make,
  makeButton,
  makeSpeaker,
  setText,
  svg,
} from "../../widgets/dom.js";
import { paintCells, palettesOf } from "../../widgets/matrix.js";
import { makePlayer } from "../../widgets/player.js";

/**
 * @typedef {object} FilmOptions
 * @property {number} last The number of the last snapshot, once it is there.
 * @property {number} pause Milliseconds that a snapshot stays while it plays.
 * @property {string[]} tokens S words.
 * @property {number} column The word that the followed one should find.
 * @property {number} steps How many steps the training has.
 * @property {number} every Steps from snapshot to snapshot.
 * @property {DataView} plain 256 colours from 0 to 1, four bytes a colour.
 *
 * @typedef {object} FilmState
 * @property {number} heads
 * @property {DataView} weights N snapshots × heads × S × S, a byte each; 255 is weight 1.
 * @property {DataView} losses One for each step so far, a mean of the last ones, as float32.
 */

const ARCS = 190; // pixels of the sentence and its arcs
const [WIDE, TALL, LEFT, BELOW] = [264, 96, 24, 16]; // of a picture of curves, and its margins
const CELL = 9; // pixels of a cell of a map, as in film.css

/** Make a small picture of lines over `steps` steps, all of which have their place before any number is known. */
function makeCurves(count, steps) {
  const lines = Array.from({ length: count }, () => svg("path", { class: "line" }));
  const axes = svg("path", { class: "axes", d: `M${LEFT} 4V${TALL - BELOW}H${WIDE - 2}` });
  const top = svg("text", { x: LEFT - 5, y: 12 });
  const zero = svg("text", { x: LEFT - 5, y: TALL - BELOW }, "0");
  const last = svg("text", { x: WIDE - 2, y: TALL - 2 }, `step ${steps}`);
  const now = svg("path", { class: "now" });
  const size = { width: WIDE, height: TALL, "aria-hidden": "true" };
  const title = make("b");
  const picture = svg("svg", size, axes, top, zero, last, ...lines, now);
  const x = (step) => LEFT + (step / steps) * (WIDE - LEFT - 6);
  /** Draw a line of numbers, one every so many steps; `high` is the number at the top. */
  function draw(line, values, every, high) {
    top.textContent = high;
    const y = (value) => 5 + (1 - value / high) * (TALL - BELOW - 6);
    const points = Array.from(values, (value, i) => `${x(i * every)} ${y(value)}`);
    lines[line].setAttribute("d", points.length ? `M${points.join("L")}` : "");
  }
  const show = (step) => now.setAttribute("d", `M${x(step)} 4V${TALL - BELOW}`);
  return { node: make("div", "curves", title, picture), title, lines, draw, show };
}

/** Make the button of a head: its map, in which the followed row and the target's column are framed and named. */
function makeHead(head, [from, to], column, S, choose) {
  const canvas = make("canvas");
  const [across, down] = [make("i", "row"), make("i", "column")];
  const [key, query] = [make("span", "key", to), make("span", "query", from)];
  const weight = make("span", "weight");
  const button = makeButton("map", "", choose);
  const cells = make("span", "cells", canvas, across, down, key, query);
  button.append(make("b", "", `head ${head}`), cells, weight);
  key.style.left = `${(column + 0.5) * CELL}px`;
  down.style.left = `${column * CELL}px`;
  function show(row, word, values, colours) {
    paintCells(canvas, { values, rows: S, columns: S }, colours);
    across.style.top = query.style.top = `${row * CELL}px`;
    setText(query, word);
    setText(weight, `${word} → ${to} ${values[row * S + column].toFixed(2)}`);
    button.ariaLabel = `head ${head}: ${weight.textContent}`;
  }
  return { button, show };
}

function render({ model, el }) {
  /** @type {FilmOptions} */
  const { tokens, column, steps, every, plain } = model.get("options");
  const { heads: H } = model.get("state");
  const S = tokens.length;
  const words = tokens.map((token) => isolateWord(token));
  const colours = { palette: palettesOf({ plain }).plain, low: 0, high: 1 };
  const speaker = makeSpeaker();
  const sentence = make("p", "sentence");
  let [at, width, newest, pointed, weights, losses] = [0, 0, 0, null, null, null];

  function choose(values) {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  }
  const arcs = new Arcs({
    onHover: (row) => drawArcs((pointed = row)),
    onFollow: (row) => choose({ row }),
  });
  const named = [words[model.get("row")], words[column]];
  const heads = Array.from({ length: H }, (_, head) =>
    makeHead(head, named, column, S, () => choose({ head })),
  );
  const maps = make("div", "maps", ...heads.map(({ button }) => button));
  const [loss, rise] = [makeCurves(1, steps), makeCurves(H, steps)];
  const body = make("div", "body", maps, make("div", "charts", loss.node, rise.node));
  /** Arrow keys on a word go from word to word, before the player takes them for its steps. */
  function pressWord(event) {
    if (!arcs.node.contains(event.composedPath()[0]) || !arcs.press(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }
  window.addEventListener("keydown", pressWord, true);
  const player = makePlayer({ model, el }, "mha-film", "A training as a film", (to) => {
    at = to;
    draw();
  });
  player.root.append(sentence, arcs.node, body, speaker.node);

  /** Return a head's weights at a snapshot, (S, S). */
  function weightsOf(snapshot, head) {
    const start = (snapshot * H + head) * S * S;
    return Float32Array.from(weights.subarray(start, start + S * S), (byte) => byte / 255);
  }
  function drawArcs() {
    const [row, head] = [model.get("row"), model.get("head")];
    if (!width) return; // it is out of sight
    const given = { queries: tokens, keys: tokens, weights: weightsOf(Math.min(at, newest), head) };
    arcs.draw({ ...given, follow: pointed ?? row, colour: "var(--arcs)", width, height: ARCS });
  }
  function drawHeads(shown, row, head) {
    heads.forEach(({ button, show }, h) => {
      button.ariaPressed = `${h === head}`;
      show(row, words[row], weightsOf(shown, h), colours);
      rise.lines[h].classList.toggle("chosen", h === head);
    });
  }
  /** Draw what does not change from snapshot to snapshot. */
  function drawCurves() {
    const row = model.get("row");
    setText(loss.title, "Loss");
    setText(rise.title, `Weight from ${words[row]} to ${words[column]}`);
    loss.draw(0, losses, 1, Math.max(1, Math.round(losses[0] ?? 1)));
    for (let h = 0; h < H; h++) {
      const place = (n) => ((n * H + h) * S + row) * S + column;
      rise.draw(
        h,
        Array.from({ length: newest + 1 }, (_, n) => weights[place(n)] / 255),
        every,
        1,
      );
    }
  }
  function draw() {
    const [shown, row, head] = [Math.min(at, newest), model.get("row"), model.get("head")];
    const step = Math.min(shown * every, steps);
    for (const curves of [loss, rise]) curves.show(step);
    drawHeads(shown, row, head);
    drawArcs();
    const spent = losses.length ? `, loss ${losses[Math.max(step, 1) - 1].toFixed(2)}` : "";
    const now = `step ${step} of ${steps}${spent}`;
    setText(player.root.querySelector(".count"), now);
    player.root.querySelector("input").ariaValueText = now;
    const values = weightsOf(shown, head).subarray(row * S, row * S + S);
    const most = Math.max(...values);
    const best = words[values.indexOf(most)];
    setText(
      sentence,
      `In head ${head}, “${words[row]}” attends most to “${best}”: ${most.toFixed(2)}.`,
    );
    speaker.speak(`${now}. ${sentence.textContent}`);
    player.root.dataset.drawn = `${shown} ${row} ${head}`;
  }
  function follow() {
    /** @type {FilmState} */
    const state = model.get("state");
    weights = bytesOf(state.weights);
    losses = new Float32Array(bytesOf(state.losses).buffer);
    newest = weights.length / (H * S * S) - 1;
    drawCurves();
    draw();
  }
  const size = new ResizeObserver(() => {
    width = arcs.node.clientWidth;
    drawArcs();
  });
  const unfollow = followModel(model, ["state", "row", "head"], follow);
  follow();
  player.follow();
  size.observe(arcs.node);
  return () => {
    size.disconnect();
    speaker.stop();
    unfollow();
    window.removeEventListener("keydown", pressWord, true);
    player.end();
  };
}

export default { render };
