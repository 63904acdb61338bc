// Where things stand in the plan that Python laid out (plots/scene_plan.py), in CSS pixels.

/** Return where one head's part of a matrix stands: bands are `apart`, 1, or together, 0. */
export function bandOf({ bands, turned, x, y, w, h }, head, gap, apart = 1) {
  if (bands === 1) return { x, y, w, h };
  const size = ((turned ? h : w) + gap) / bands - gap;
  const start = ((1 - apart) * gap * (bands - 1)) / 2 + head * (size + gap * apart);
  return turned ? { x, y: y + start, w, h: size } : { x: x + start, y, w: size, h };
}

/** Return where the cell of a matrix stands, or a whole row of it where there is no column. */
export function cellOf(part, { head = 0, row, column }, gap, apart) {
  if (column === undefined) {
    const [first, last] = [bandOf(part, 0, gap, apart), bandOf(part, part.bands - 1, gap, apart)];
    return { x: first.x, y: part.y + (row * part.h) / part.rows, w: last.x + last.w - first.x, h: part.h / part.rows };
  }
  const { x, y, w, h } = bandOf(part, head, gap, apart);
  const { rows, columns } = sizesOf(part);
  const [down, right] = part.turned ? [column, row] : [row, column];
  return { x: x + (right * w) / columns, y: y + (down * h) / rows, w: w / columns, h: h / rows };
}

/** Return how many rows and columns one head's part of a matrix has on the screen. */
export function sizesOf({ rows, columns, bands, turned }) {
  return turned ? { rows: rows / bands, columns } : { rows, columns: columns / bands };
}

const inside = ({ x, y, w, h }, point) => point.x >= x && point.x < x + w && point.y >= y && point.y < y + h;

/** Return what lies at a point: a cell {name, head, row, column} (head where bands say it), {head}, {row} or null. */
export function hit({ parts, heads, top, side, gap, left }, S, apart, point) {
  const head = heads.findIndex((box) => inside({ x: box.x, y: box.y - 16, w: box.side, h: box.side + 16 }, point));
  if (head >= 0) return { head };
  if (inside({ x: 0, y: top, w: left, h: side }, point)) return { row: Math.floor(((point.y - top) * S) / side) };
  for (const [name, part] of Object.entries(parts)) {
    for (let band = 0; band < part.bands; band++) {
      const box = bandOf(part, band, gap, apart(name));
      if (!inside(box, point)) continue;
      const { rows, columns } = sizesOf(part);
      const [down, right] = [((point.y - box.y) / box.h) * rows, ((point.x - box.x) / box.w) * columns].map(Math.floor);
      const [row, column] = part.turned ? [right, down] : [down, right];
      return { name, row, column, ...(part.bands > 1 && { head: band }) };
    }
  }
  return null;
}
