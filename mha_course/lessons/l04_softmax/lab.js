// The lab of lesson 4: a row of its matrix can be picked, and the sums of rows and columns are at the edges.

import { svg } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { Matrix } from "../../widgets/labs/matrix.js";
import { KINDS } from "../../widgets/labs/panels.js";

/**
 * What the panel has besides a MatrixPanel's own.
 * @typedef {object} Sums
 * @property {string} pick The control that its rows are.
 * @property {number} highlighted The row that is picked.
 * @property {string[]} rows_sum
 * @property {string[]} columns_sum
 */

class SummedMatrix extends Matrix {
  update(now) {
    super.update(now);
    this.node.classList.add("pick");
    this.drawing.append(
      ...this.sumTexts(),
      svg("path", { class: "chosen", d: this.outline({ row: now.highlighted }) }),
    );
  }

  sumTexts() {
    const { rows_sum: beside, columns_sum: below } = this.now;
    const { x, y, w, h } = this.plan.box;
    const { cell } = this.plan;
    const texts = beside.map((text, i) =>
      svg("text", { class: "sum", x: x + w + 5, y: y + (i + 0.5) * cell.h }, text),
    );
    below.forEach((text, j) => {
      const left = x + (j + 0.5) * cell.w;
      const top = y + h + 5;
      const transform = `rotate(90 ${left} ${top})`;
      texts.push(svg("text", { class: "sum", x: left, y: top, transform }, text));
    });
    for (const text of texts) text.style.fontSize = `${Math.min(12, cell.h)}px`; // no higher than a row
    return texts;
  }

  press(event) {
    super.press(event);
    const place = this.under(event);
    if (place) this.tools.move(this.now.pick, place.row);
  }

  key(event) {
    const ours = super.key(event);
    if (ours && this.cursor.row !== this.now.highlighted)
      this.tools.move(this.now.pick, this.cursor.row);
  }
}

const draw = (panel, tools) => new SummedMatrix(panel, tools);
const kinds = { ...KINDS, matrix: { ...KINDS.matrix, draw } };
const render = (context) => renderLab(context, kinds);

export default { render: inView(render) };
