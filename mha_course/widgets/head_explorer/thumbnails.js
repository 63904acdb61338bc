// The small pictures: one for each head, one for their average, in a grid of layers and heads.

import { clamp, make, makeButton, say } from "../dom.js";
import { limits, number } from "./data.js";
import { fitCanvas, paintCells } from "./draw.js";
import { coloursFor } from "./scene.js";
import { entropyText, nameOf } from "./text.js";

const LARGEST_THUMB = 96;
const SMALLEST_THUMB = 38; // pixels
const WIDE = 700; // pixels from which the small pictures stand beside the large one

export function makeThumbs(maps, list, act) {
  const many = maps.L > 1;
  const thumbs = [];
  const nodes = [];
  for (let layer = 0; layer < maps.L; layer++) {
    if (many) nodes.push(make("span", "layer", `layer ${layer}`));
    for (let slot = 0; slot < maps.slots; slot++) {
      const at = { layer, slot };
      const canvas = make("canvas");
      const entropy = make("small");
      const head = slot < maps.H;
      const name = many ? (head ? `${slot}` : "avg") : head ? `head ${slot}` : "average";
      const node = makeButton("head", "", (event) => act(at, event));
      node.append(canvas, make("span", "", name), entropy);
      thumbs.push({ at, node, canvas, entropy });
      nodes.push(node);
    }
  }
  list.replaceChildren(...nodes);
  return thumbs;
}

/** Choose sizes so that the grid fits into the width of the widget, and return them. */
export function layThumbs(root, list, maps, count, space) {
  const wide = space >= WIDE;
  const many = maps.L > 1;
  const free = wide ? Math.min(many ? space * 0.5 : 340, space - 340) : space;
  const fitting = wide ? (count > 4 ? 3 : 2) : Math.floor(free / 76);
  const columns = many ? maps.slots : clamp(fitting, 1, count);
  const width = clamp(Math.floor((free - (many ? 46 : 0)) / columns) - 12, SMALLEST_THUMB, LARGEST_THUMB);
  const height = Math.round(width * clamp(maps.T / maps.S, 0.3, 1.5));
  root.classList.toggle("wide", wide);
  root.classList.toggle("single", count === 1);
  list.classList.toggle("dense", many);
  list.style.setProperty("--size", `${width}px`);
  list.style.gridTemplateColumns = `${many ? "auto " : ""}repeat(${columns}, max-content)`;
  return { width, height };
}

/** Mark which head is shown and which it is compared with; one of all is reached with Tab. */
export function markThumbs(thumbs, maps, shown, compared) {
  const same = (a, b) => Boolean(a) && a.layer === b.layer && a.slot === b.slot;
  for (const { at, node } of thumbs) {
    const { entropy } = maps.facts({ ...at, item: shown.item });
    const [chosen, other] = [same(shown, at), same(compared, at)];
    const spread = entropy === null ? "" : `, entropy ${number(entropy)} nats`;
    const label = `${nameOf(maps, at)}${spread}${other ? ", compared with" : ""}`;
    if (node.title === label && node.ariaPressed === `${chosen}`) continue; // what is written anew is laid out anew
    node.ariaPressed = chosen;
    node.classList.toggle("beside", other);
    node.tabIndex = chosen ? 0 : -1;
    node.ariaLabel = node.title = label;
  }
}

export function paintThumb({ at, canvas, entropy }, size, maps, { item, scale, palettes, look }) {
  const own = { ...at, item };
  const context = fitCanvas(canvas, size, look.dots);
  const box = { x: 0, y: 0, w: size.width, h: size.height };
  paintCells(context, maps.matrix(own), coloursFor(palettes, limits(maps, own, scale)), box, look);
  say(entropy, entropyText(maps, own));
}
