// The lab of lesson 12: which tile is held, which are gone and which are to come.

import { isolateWord, make, svg } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { Matrix } from "../../widgets/labs/matrix.js";
import { KINDS } from "../../widgets/labs/panels.js";
import { outlineOf } from "../../widgets/matrix.js";

/**
 * What the panel has besides a MatrixPanel's own.
 * @typedef {object} Tiles
 * @property {[number, number, number, number][]} tiles Row, column, rows and columns of each, in their order.
 * @property {number} at Which of them is held.
 * @property {boolean} causal Whether keys after the query are hidden.
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
    const { tiles, at } = now;
    const [past, coming] = [tiles.slice(0, at), tiles.slice(at + 1)].map((some) =>
      some.flatMap((tile) => this.seenOf(tile)),
    );
    this.drawing.append(
      this.block(GONE, past),
      this.block(COMING, coming),
      svg("path", { class: "dots", d: coming.map((part) => this.dotsIn(part)).join("") }),
      this.block(HELD, [tiles[at]]),
    );
  }

  /** Return the parts of a tile that are not hidden: its rows where the diagonal cuts it. */
  seenOf([row, column, rows, columns]) {
    if (!this.now.causal || column + columns <= row + 1) return [[row, column, rows, columns]];
    const strips = Array.from({ length: rows }, (_, i) => {
      const visible = row + i + 1 - column;
      return [row + i, column, 1, Math.min(columns, visible)];
    });
    return strips.filter(([, , , seen]) => seen > 0);
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

  /** A dot in each cell, so that it does not look like a score of 0. */
  dotsIn([row, column, rows, columns]) {
    const { box, cell } = this.plan;
    const dotAt = (_, i) => {
      const [down, right] = [row + Math.floor(i / columns), column + (i % columns)];
      return `M${box.x + (right + 0.5) * cell.w} ${box.y + (down + 0.5) * cell.h}h0`;
    };
    return Array.from({ length: rows * columns }, dotAt).join("");
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

/** Draw the matrix over a legend of its marks; the slider goes to the last tile. */
function drawTiles(panel, tools, slider) {
  const matrix = new TiledMatrix(panel, tools);
  const entries = Object.entries(WORDS).map(([kind, words]) =>
    make("span", "", make("i", kind === NEVER ? "hatched" : kind), ` ${words}`),
  );
  const node = make("div", "", matrix.node, make("p", "note", ...entries));
  function update(now) {
    entries.at(-1).hidden = !now.causal;
    slider.max = now.tiles.length - 1;
    matrix.update(now);
  }
  update(panel);
  return { node, update };
}

function render(context) {
  const slider = () => context.el.querySelector('[data-control="tile"]');
  const draw = (panel, tools) => drawTiles(panel, tools, slider());
  return renderLab(context, { ...KINDS, matrix: { ...KINDS.matrix, draw } });
}

export default { render: inView(render) };
