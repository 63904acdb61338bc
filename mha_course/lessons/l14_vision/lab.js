// The lab of lesson 14: a picture whose clickable patches show their weights as brightness.

import { svg } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { renderLab } from "../../widgets/labs/lab.js";
import { KINDS } from "../../widgets/labs/panels.js";
import { afresh } from "../../widgets/labs/table.js";

const DARK = 0.12; // of its light a patch keeps where its weight is 0, as in overlays.py
const FULL = 255;

const patches = afresh(({ title, image, light, columns, query }, { move }) => {
  const rows = light.length / columns;
  const root = svg("svg", { viewBox: `0 0 ${columns} ${rows}`, role: "img" });
  root.ariaLabel = title;
  root.append(svg("image", { href: image, width: columns, height: rows }));
  const at = (n) => ({ x: n % columns, y: Math.floor(n / columns), width: 1, height: 1 });
  light.forEach((share, n) => {
    const veil = svg("rect", { ...at(n), "fill-opacity": (1 - DARK) * (1 - share / FULL) });
    veil.addEventListener("click", () => move("query", n + 1));
    root.append(veil);
  });
  if (query >= 0) root.append(svg("rect", { ...at(query), class: "query" }));
  return root;
});

const kinds = { ...KINDS, patches: { draw: patches, widths: () => [130, 210] } };
const render = (context) => renderLab(context, kinds);

export default { render: inView(render) };
