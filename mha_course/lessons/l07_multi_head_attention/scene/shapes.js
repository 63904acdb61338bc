// Shapes of the picture, as nodes of an SVG.

import { make, svg } from "../../../widgets/dom.js";
import { paintCells } from "../../../widgets/matrix.js";
import { indices } from "./layout.js";

/** Return a matrix whose numbers are read cell by cell. */
export const cellsOf = (rows, columns, valueAt) => ({
  values: indices(rows * columns).map((i) => valueAt(Math.floor(i / columns), i % columns)),
  rows,
  columns,
});

/** Return a canvas with one pixel per cell. */
export function painted(cells, colours) {
  const canvas = make("canvas");
  paintCells(canvas, cells, colours);
  return canvas;
}

/** Return a canvas as an image that fills a box; `attributes` may place it otherwise. */
export const imageOf = (canvas, { x, y, w, h }, attributes = {}) =>
  svg("image", {
    ...{ x, y, width: w, height: h, preserveAspectRatio: "none", href: canvas.toDataURL() },
    ...attributes,
  });

export const rect = (name, { x, y, w, h }, attributes = {}) =>
  svg("rect", { class: name, x, y, width: w, height: h, ...attributes });

/** Return a coloured line, or a filled shape if it has no width. */
export const line = (d, width, name = "accent") =>
  svg("path", { class: `${width ? "stroke" : "fill"} ${name}`, d, "stroke-width": width });

/** Return a frame around a box, on a frame of paper. */
export const outline = ({ x, y, w, h }, colour) =>
  svg(
    "g",
    { class: "passive" },
    rect("stroke paper-line", { x: x - 2, y: y - 2, w: w + 4, h: h + 4 }),
    rect(`stroke ${colour}`, { x: x - 1, y: y - 1, w: w + 2, h: h + 2 }, { "stroke-width": 1.5 }),
  );
