// The lab of lesson 12: which tile is held, which are gone and which are to come; the tiles can be played.

import { isolateWord, make, setAttributes, svg } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { Matrix } from "../../widgets/labs/matrix.js";
import { KINDS } from "../../widgets/labs/panels.js";
import { outlineOf } from "../../widgets/matrix.js";
import { makePlay } from "../../widgets/player.js";

/**
 * What the panel has besides a MatrixPanel's own.
 * @typedef {object} Tiles
 * @property {[number, number, number, number][]} tiles Row, column, rows and columns of each, in their order.
 * @property {number} at Which of them is held.
 * @property {boolean} causal Whether keys behind the query are hidden.
 */

const [HELD, GONE, COMING, NEVER] = ["held", "gone", "coming", "never"];
const WORDS = {
  [HELD]: "held now",
  [GONE]: "gone: folded into the running sum",
  [COMING]: "not computed yet",
  [NEVER]: "hidden by the mask",
};

class TiledMatrix extends Matrix {
  update(now) {
    super.update(now);
    this.frame ??= this.node.lastChild.appendChild(svg("rect", { class: HELD }));
    const { tiles, at, causal } = now;
    const behind = (_, row) => [row, row + 1, 1, this.sizes.S - row - 1];
    const never = causal ? this.rows.slice(0, -1).map(behind) : [];
    const blocks = [this.block(GONE, tiles.slice(0, at)), this.block(NEVER, never)];
    this.drawing.append(
      ...blocks,
      svg("path", { class: "dots", d: never.map((row) => this.dotsIn(row)).join("") }),
    );
    const { x, y, w, h } = this.boxOfTile(tiles[at]);
    setAttributes(this.frame, { x, y, width: w, height: h });
  }

  boxOfTile([row, column, rows, columns]) {
    const { box, cell } = this.plan;
    const [x, y] = [box.x + column * cell.w, box.y + row * cell.h];
    return { x, y, w: columns * cell.w, h: rows * cell.h };
  }

  block(name, tiles) {
    const outlines = tiles.map((tile) => outlineOf(this.boxOfTile(tile)));
    return svg("path", { class: name, d: outlines.join("") });
  }

  /** A dot in each cell of a row, so that it is not taken for a score of 0. */
  dotsIn([row, column, , columns]) {
    const { box, cell } = this.plan;
    const y = box.y + (row + 0.5) * cell.h;
    const places = Array.from({ length: columns }, (_, i) => box.x + (column + i + 0.5) * cell.w);
    return places.map((x) => `M${x} ${y}h0`).join("");
  }

  kindOf({ row, column }) {
    const { tiles, at, causal } = this.now;
    if (causal && column > row) return NEVER;
    const within = ([top, left, rows, columns]) =>
      row >= top && row < top + rows && column >= left && column < left + columns;
    const number = tiles.findIndex(within);
    return number < at ? GONE : number > at ? COMING : HELD;
  }

  describe(place) {
    const kind = this.kindOf(place);
    if (kind === HELD) return super.describe(place);
    return `${isolateWord(this.rows[place.row])} → ${isolateWord(this.columns[place.column])}: ${WORDS[kind]}`;
  }
}

/** Draw the matrix over a legend of its marks. */
function drawTiles(panel, tools) {
  const matrix = new TiledMatrix(panel, tools);
  const entries = Object.entries(WORDS).map(([kind, words]) =>
    make("span", "", make("i", kind === COMING ? "hatched" : kind), ` ${words}`),
  );
  const node = make("div", "", matrix.node, make("p", "note", ...entries));
  function update(now) {
    entries.at(-1).hidden = !now.causal;
    matrix.update(now);
  }
  update(panel);
  return { node, update };
}

/** Put a button before the slider of tiles, which plays them until somebody moves a control. */
function addPlay({ model, el }) {
  const bar = el.querySelector(".mha-lab .controls");
  const slider = bar.querySelector("[data-control=tile]");
  function to(place) {
    slider.value = place;
    slider.dispatchEvent(new Event("input"));
  }
  const play = makePlay({
    atEnd: () => Number(slider.value) >= model.get("state").panels[0].tiles.length - 1,
    rewind: () => to(0),
    next: () => to(Number(slider.value) + 1),
  });
  bar.prepend(play.button);
  function stopPlaying({ isTrusted, target }) {
    if (isTrusted && target !== play.button) play.toggle(false); // it was not play that moved
  }
  for (const kind of ["input", "click"]) bar.addEventListener(kind, stopPlaying, true);
  return () => play.toggle(false);
}

const kinds = { ...KINDS, matrix: { ...KINDS.matrix, draw: drawTiles } };
function render(context) {
  const stop = renderLab(context, kinds);
  const stopPlay = addPlay(context);
  return () => {
    stopPlay();
    stop();
  };
}

export default { render: inView(render) };
