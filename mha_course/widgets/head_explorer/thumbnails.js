// The small pictures: one for each head, one for their average, a row for each layer.

import { clamp, make, makeButton, number, setText } from "../dom.js";
import { paintCells } from "../matrix.js";
import { entropyText, nameOf } from "./text.js";

/** Make the small pictures; `choose(at)` is called where one is clicked. */
export function makeThumbs(maps, list, choose) {
  const many = maps.R > 1;
  const thumbs = [];
  const explained =
    "How widely the rows spread their weight, a mean in nats: 0 where each attends to one key only";
  list.replaceChildren();
  for (let layer = 0; layer < maps.R; layer++) {
    if (many) list.append(make("span", "layer", maps.rows[layer]));
    for (let slot = 0; slot < maps.slots; slot++) {
      const [at, canvas, entropy] = [{ layer, slot }, make("canvas", "hatched"), make("small")];
      const head = many ? `${slot}` : `head ${slot}`;
      entropy.title = explained;
      const node = makeButton("head", "", () => choose(at));
      node.append(canvas, make("span", "", slot < maps.H ? head : "average"), entropy);
      thumbs.push({ at, node, canvas, entropy });
      list.append(node);
    }
  }
  list.classList.toggle("dense", many);
  list.style.setProperty("--slots", many ? maps.slots : thumbs.length > 4 ? 3 : 2);
  list.style.setProperty("--shape", 1 / clamp(maps.T / maps.S, 0.3, 1.5));
  return thumbs;
}

/** Mark which head is shown; one of all is reached with Tab. */
export function markThumbs(thumbs, maps, shown) {
  for (const { at, node } of thumbs.filter((thumb) => maps.has(thumb.at))) {
    const { entropy } = maps.facts(at);
    const chosen = shown.layer === at.layer && shown.slot === at.slot;
    const label = `${nameOf(maps, at)}${entropy === null ? "" : `, entropy ${number(entropy)}`}`;
    if (node.title === label && node.ariaPressed === `${chosen}`) continue; // what is rewritten is laid out again
    node.ariaPressed = chosen;
    node.tabIndex = chosen ? 0 : -1;
    node.title = label;
    if (node.parentElement.matches(".dense")) node.ariaLabel = label; // there is no room for words
  }
}

/** Paint those whose maps have come. */
export function paintThumbs(thumbs, maps, palette) {
  for (const { at, canvas, entropy } of thumbs.filter((thumb) => maps.has(thumb.at))) {
    paintCells(canvas, maps.thumbnail(at), { ...maps, palette });
    setText(entropy, entropyText(maps, at));
  }
}
