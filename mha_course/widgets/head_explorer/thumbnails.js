// The small pictures: one for each head, one for their average, in a grid of layers and heads.

const THUMB = { most: 96, least: 38 };

/** Make a button with a small picture for each map. */
function makeThumbs(packet, list, act) {
  const many = packet.L > 1, thumbs = [], rows = [];
  for (let layer = 0; layer < packet.L; layer++) {
    if (many) rows.push(make("span", "layer", `layer ${layer}`));
    for (let slot = 0; slot < packet.slots; slot++) {
      const at = { layer, slot }, canvas = make("canvas"), entropy = make("small");
      const name = slot < packet.H ? (many ? `${slot}` : `head ${slot}`) : many ? "avg" : "average";
      const node = make("button", "head", canvas, make("span", "", name), entropy);
      node.type = "button";
      node.addEventListener("click", (event) => act(at, event));
      thumbs.push({ at, node, canvas, entropy });
      rows.push(node);
    }
  }
  list.replaceChildren(...rows);
  return thumbs;
}

/** Choose sizes so that the grid fits, and return them. */
function layThumbs(root, list, packet, count, room) {
  const wide = room >= 700, many = packet.L > 1;
  const free = wide ? Math.min(many ? room * 0.5 : 340, room - 340) : room;
  const columns = many ? packet.slots : Math.max(1, Math.min(count, wide ? (count > 4 ? 3 : 2) : Math.floor(free / 76)));
  const size = Math.max(THUMB.least, Math.min(THUMB.most, Math.floor((free - (many ? 46 : 0)) / columns) - 12));
  root.classList.toggle("wide", wide);
  root.classList.toggle("single", count === 1);
  list.classList.toggle("dense", many);
  const tall = Math.round(size * Math.max(0.3, Math.min(1.5, packet.T / packet.S)));
  list.style.setProperty("--size", `${size}px`);
  list.style.setProperty("--tall", `${tall}px`);
  list.style.gridTemplateColumns = `${many ? "auto " : ""}repeat(${columns}, max-content)`;
  return { size, tall };
}

/** Mark which head is shown and which it is compared with; one of all is reached with Tab. */
function markThumbs(thumbs, packet, at, beside) {
  for (const { at: own, node } of thumbs) {
    const [chosen, other] = [at, beside].map((one) => Boolean(one) && one.layer === own.layer && one.slot === own.slot);
    const { entropy } = packet.facts({ ...own, item: at.item }), name = nameOf(packet, own);
    const said = `${name}${Number.isNaN(entropy) ? "" : `, entropy ${number(entropy)} nats`}${other ? ", compared with" : ""}`;
    if (node.title === said && node.ariaPressed === `${chosen}`) continue; // what is written anew is laid out anew
    node.ariaPressed = chosen;
    node.classList.toggle("beside", other);
    node.tabIndex = chosen ? 0 : -1;
    node.ariaLabel = node.title = said;
  }
}

/** Draw one small picture, with its entropy. */
function paintThumb({ at, canvas, entropy }, { size, tall }, packet, item, colours, look) {
  const [wide, high] = [size, tall].map((length) => Math.round(length * look.dots));
  const own = { ...at, item }, cells = packet.matrix(own), facts = packet.facts(own);
  const small = shrink(cells, Math.max(1, Math.floor(cells.rows / high)), Math.max(1, Math.floor(cells.columns / wide)));
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d");
  context.setTransform(look.dots, 0, 0, look.dots, 0, 0);
  paintCells(context, small, colours, { x: 0, y: 0, w: wide / look.dots, h: high / look.dots }, look);
  const rows = facts.least <= facts.most;
  const word = Number.isNaN(facts.entropy) ? (rows && packet.kind === "weights" ? "Σ ≠ 1" : "") : number(facts.entropy);
  const text = word + (packet.L > 1 || Number.isNaN(facts.entropy) ? "" : " nats");
  say(entropy, text);
}
