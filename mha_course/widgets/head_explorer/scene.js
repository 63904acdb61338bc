// Gathers what the large picture shows, and draws it as a whole: on the screen, and once more for a file.

/** Read colours and fonts from where the widget stands, so that it follows the theme. */
function lookOf(root) {
  const { color: ink, backgroundColor: paper, fontFamily } = getComputedStyle(root), pale = (of, share) => `color-mix(in srgb, ${of} ${share}%, transparent)`;
  return {
    ink, paper, hatch: pale(ink, 45), veil: pale(paper, 58), accent: "#d9480f",
    font: `12px ${fontFamily}`, small: `11px ${fontFamily}`, dots: Math.min(3, window.devicePixelRatio || 1),
  };
}

/** Return which numbers have the first and the last colour. */
function limits(packet, at, scale) {
  const { low, high } = scale === "head" ? packet.facts(at) : packet;
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  if (packet.kind === "signed") return { low: -most, high: most };
  return { low: 0, high: scale === "head" || packet.kind === "numbers" ? most : 1 };
}

const gauge = document.createElement("canvas").getContext("2d"); // measures words

/** Gather cells, colours and sizes of a head, or of the difference of two. */
function compose(packet, palettes, { at, beside, scale }, look, width) {
  const one = packet.matrix(at), two = beside && packet.matrix(beside);
  const other = two && two.values.length === one.values.length ? two : null; // else it is not here yet
  const cells = other ? difference(one, other) : one;
  const plan = arrange(gauge, packet, at.item, { width, height: Math.max(240, Math.min(512, width)), font: look.font }, look.dots);
  const drawn = shrink(cells, Math.max(1, Math.round(plan.by / cells.down)), Math.max(1, Math.round(plan.on / cells.across)));
  let range = limits(packet, at, scale);
  if (other) {
    const largest = cells.values.reduce((most, value) => Math.max(most, Math.abs(value) || 0), 0) || 1;
    const most = scale === "fixed" && packet.kind === "weights" ? 1 : largest;
    range = { low: -most, high: most };
  }
  const palette = range.low < 0 ? palettes.signed : palettes.plain;
  const marks = [];
  if (darkOf(cells)?.includes(1)) marks.push(["hidden", "hidden"]);
  if (anyNaN(cells)) marks.push(["nan", "NaN"]);
  return { at, beside, one, other, cells, drawn, plan, colours: { palette, ...range }, marks, look };
}

/** Draw the whole picture. */
function paintAll(context, packet, { at, cells, drawn, plan, colours, marks, look }) {
  paintCells(context, drawn, colours, plan.box, look);
  paintGaps(context, plan, look);
  paintNumbers(context, cells, plan, colours, look);
  paintWords(context, packet, at.item, plan, look);
  paintLegend(context, plan, colours, marks, look);
}

/** Light a row, a column, or both: all else lies under a veil. */
function paintLit(context, packet, { at, cells, plan, colours, look }, lit) {
  const { box, cell } = plan, [w, h] = [Math.max(cell.w, 3), Math.max(cell.h, 3)];
  const x = lit.column == null ? null : box.x + (lit.column + 0.5) * cell.w - w / 2;
  const y = lit.row == null ? null : box.y + (lit.row + 0.5) * cell.h - h / 2;
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.w, box.h);
  if (y !== null) context.rect(box.x, y, box.w, h);
  if (x !== null) context.rect(x, box.y, w, box.h);
  if (x !== null && y !== null) context.rect(x, y, w, h);
  context.fillStyle = look.veil;
  context.fill("evenodd");
  context.restore();
  const frames = x !== null && y !== null ? [[x, y, w, h]] : y !== null ? [[box.x, y, box.w, h]] : [[x, box.y, w, box.h]];
  for (const [left, top, wide, high] of frames) {
    context.lineWidth = 4;
    context.strokeStyle = look.paper;
    context.strokeRect(left, top, wide, high);
    context.lineWidth = 2;
    context.strokeStyle = look.accent;
    context.strokeRect(left, top, wide, high);
  }
  paintWords(context, packet, at.item, plan, look, lit);
  if (lit.row != null) paintBars(context, cells, plan, lit.row, colours.low < 0, packet.queries(at.item)[lit.row], look);
}

/** Draw the picture at twice its size on a canvas of its own, with its title. */
function pictureOf(packet, scene, title, lit) {
  const { plan, look } = scene, canvas = canvasOf(plan.width * 2, (plan.height + 30) * 2), context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = look.paper;
  context.fillRect(0, 0, plan.width, plan.height + 30);
  context.fillStyle = look.ink;
  context.font = `bold ${look.font}`;
  context.textBaseline = "middle";
  context.fillText(title, 10, 18);
  context.translate(0, 30);
  const fine = { ...scene, look: { ...look, dots: 2 } };
  paintAll(context, packet, fine);
  if (lit) paintLit(context, packet, fine, lit);
  return canvas;
}
