// What is said of heads: titles, a line for the cell that is pointed at, and notes on what is unusual.

/** Name a map: head 3, or layer 1, head 3. */
function nameOf(packet, { layer, slot }, brief = false) {
  const head = slot < packet.H ? `head ${slot}` : brief ? "average" : "average of heads";
  return packet.L > 1 ? `layer ${layer}, ${head}` : head;
}

/** Write what a cell holds: it → cat 0.96, or the difference of two heads. */
function cellWords(packet, item, row, column, one, other) {
  const index = row * packet.S + column, value = one.values[index];
  const pair = `${apart(packet.queries(item)[row])} → ${apart(packet.keys(item)[column])}`;
  const hidden = Boolean(one.hidden?.[index]) || value === -Infinity;
  if (other) {
    const b = other.values[index], gap = value === b ? 0 : value - b;
    return `${pair} ${number(value)} − ${b < 0 ? `(${number(b)})` : number(b)} = ${number(gap, true)}${hidden ? ", hidden" : ""}`;
  }
  if (Number.isNaN(value)) return `${pair} NaN, not a number`;
  if (hidden && Math.abs(value) > 1e-4 && value !== -Infinity) return `${pair} ${number(value)}, though hidden by the mask`;
  return hidden ? `${pair} hidden${value === -Infinity ? " (−∞)" : " by the mask"}` : `${pair} ${number(value)}`;
}

/** Write the three largest numbers of a row or a column. */
function lineWords(packet, item, { row, column }, one) {
  const along = row != null, size = along ? packet.S : packet.T;
  const names = along ? packet.keys(item) : packet.queries(item);
  const place = (i) => (along ? row * packet.S + i : i * packet.S + column);
  const seen = [...Array(size).keys()].filter((i) => !one.hidden?.[place(i)] && Number.isFinite(one.values[place(i)]));
  const best = seen.sort((a, b) => one.values[place(b)] - one.values[place(a)]).slice(0, 3);
  const list = best.map((i) => `${apart(names[i])} ${number(one.values[place(i)])}`).join(", ");
  const word = apart(along ? packet.queries(item)[row] : packet.keys(item)[column]);
  if (!best.length) return along ? `${word} sees nothing: all keys are hidden` : `${word} is seen by nobody`;
  return along ? `${word} looks at ${list}` : `${word} is seen by ${list}`;
}

/** Say in words what lies under the pointer; nothing where the cells are not here yet. */
function readoutOf(packet, at, beside, lit, scene) {
  const { one, other } = scene, name = other ? `${nameOf(packet, at)} − ${nameOf(packet, beside)}` : nameOf(packet, at);
  if (!lit) return "";
  if (one.values.length !== packet.T * packet.S) {
    const index = Math.floor((lit.row ?? 0) / one.down) * one.columns + Math.floor((lit.column ?? 0) / one.across);
    const pair = `${apart(packet.queries(at.item)[lit.row ?? 0])} → ${apart(packet.keys(at.item)[lit.column ?? 0])}`;
    const value = other ? number(one.values[index] - other.values[index], true) : number(one.values[index]);
    return lit.row == null || lit.column == null ? "" : `${name}: around ${pair} ${value}, the mean of ${one.down} × ${one.across} cells`;
  }
  const cell = lit.row != null && lit.column != null;
  return `${name}: ${cell ? cellWords(packet, at.item, lit.row, lit.column, one, other) : lineWords(packet, at.item, lit, one)}`;
}

/** Return notes on what is unusual about a map. */
function notesOf(packet, at, scene) {
  const { least, most, entropy, upright, missing, leak } = packet.facts(at), notes = [];
  if (Number.isNaN(entropy) && least <= most) {
    const sums = number(least) === number(most) ? number(least) : `${number(least)} … ${number(most)}`;
    const not = number(least) === "1.00" && number(most) === "1.00" ? ", with numbers below 0" : ", not 1";
    const why = upright ? "; the columns sum to 1, as after a softmax over the queries" : "";
    notes.push([packet.kind === "weights" ? "odd" : "", `rows sum to ${sums}${not}${why}`]);
  }
  if (missing) notes.push(["odd", `${missing} cell${missing > 1 ? "s are" : " is"} NaN, not a number`]);
  if (leak > 1e-4 && packet.kind === "weights") notes.push(["odd", `hidden cells hold weight, up to ${number(leak)}`]);
  const [by, on] = [scene.drawn.down, scene.drawn.across];
  const unit = scene.one.down > 1 || scene.one.across > 1 ? "cell" : "pixel";
  if (by > 1 || on > 1) notes.push(["", `each ${unit} is the mean of ${by} × ${on} cells`]);
  if (unit === "cell" && !packet.alone) notes.push(["", "all cells are on their way"]);
  return notes;
}
