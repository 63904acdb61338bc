// The small pictures: one for each head, one for their average, in a grid of layers and heads.

import { clamp, make, makeButton, number, say } from "../dom.js";
import { coloursOf, limits } from "./data.js";
import { paintCells, sizeCanvas } from "./picture.js";
import { entropyText, nameOf } from "./text.js";

const [SMALLEST, LARGEST] = [38, 96]; // pixels
const WIDE = 700; // pixels from which the small pictures stand beside the large one

/** Make the small pictures of all layers; `act(at, event)` is called where one is clicked. */
export function makeThumbs(maps, list, act) {
  const many = maps.L > 1;
  const thumbs = [];
  list.replaceChildren();
  for (let layer = 0; layer < maps.L; layer++) {
    if (many) list.append(make("span", "layer", `layer ${layer}`));
    for (let slot = 0; slot < maps.slots; slot++) {
      const [at, canvas, entropy] = [{ layer, slot }, make("canvas"), make("small")];
      const [head, average] = many ? [`${slot}`, "avg"] : [`head ${slot}`, "average"];
      const node = makeButton("head", "", (event) => act(at, event));
      node.append(canvas, make("span", "", slot < maps.H ? head : average), entropy);
      thumbs.push({ at, node, canvas, entropy });
      list.append(node);
    }
  }
  return thumbs;
}

/** Size the small pictures so that their grid fits into the width of the widget. */
export function layThumbs(root, list, maps, thumbs, space) {
  const [wide, many, count] = [space >= WIDE, maps.L > 1, thumbs.length];
  const free = wide ? Math.min(many ? space * 0.5 : 340, space - 340) : space;
  const fitting = wide ? (count > 4 ? 3 : 2) : Math.floor(free / 76);
  const columns = many ? maps.slots : clamp(fitting, 1, count);
  const w = clamp(Math.floor((free - (many ? 46 : 0)) / columns) - 12, SMALLEST, LARGEST);
  const h = Math.round(w * clamp(maps.T / maps.S, 0.3, 1.5));
  root.classList.toggle("wide", wide);
  root.classList.toggle("single", count === 1);
  list.classList.toggle("dense", many);
  list.style.setProperty("--size", `${w}px`);
  list.style.gridTemplateColumns = `${many ? "auto " : ""}repeat(${columns}, max-content)`;
  for (const { canvas } of thumbs) sizeCanvas(canvas, { w, h }, maps.S);
}

/** Mark which head is shown and which it is compared with; one of all is reached with Tab. */
export function markThumbs(thumbs, maps, shown, compared) {
  const same = (a, b) => a?.layer === b.layer && a?.slot === b.slot;
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

export function paintThumbs(thumbs, maps, item, scale, palettes) {
  for (const { at, canvas, entropy } of thumbs) {
    const own = { ...at, item };
    paintCells(canvas, maps.matrix(own), coloursOf(palettes, limits(maps, own, scale)));
    say(entropy, entropyText(maps, own));
  }
}
