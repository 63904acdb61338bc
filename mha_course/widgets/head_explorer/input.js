// Pointer and keyboard: what is pointed at, what is chosen, and what is painted.

const clamp = (value, most) => Math.max(0, Math.min(most, value));

/** Follow the pointer over the large picture; with a painted mask it is a brush. */
function pointAt(state, glass, asking, acts) {
  let brush = null;
  const place = (event) => {
    const { left, top } = glass.getBoundingClientRect(), { box, cell, bars } = state.scene.plan, { T, S } = state.packet;
    const [x, y] = [event.clientX - left, event.clientY - top];
    const row = Math.floor((y - box.y) / cell.h), slant = y < box.y ? (box.y - y) / Math.tan(SLANT) : 0; // of the words
    const column = Math.floor((x - box.x - slant) / cell.w), kept = (state.hover ?? state.cursor)?.row;
    const [rows, columns] = [row >= 0 && row < T, column >= 0 && column < S];
    if (rows && x < box.x) return { row };
    if (rows && columns) return { row, column };
    if (columns && y < box.y) return { column };
    return columns && kept != null && y > bars.y && y < bars.y + bars.h ? { row: kept, column } : null;
  };
  /** Hide or show a cell. All cells of a stroke become what its first one became. */
  function stroke({ row, column }) {
    if (row == null || column == null) return;
    const { packet } = state, index = row * packet.S + column;
    if (!brush) {
      const { hidden } = packet.matrix(acts.current());
      brush = { seen: new Uint8Array(packet.T * packet.S).map((_, i) => Number(!hidden?.[i])), to: hidden?.[index] ? 1 : 0 };
    } else if (brush.seen[index] === brush.to) return;
    brush.seen[index] = brush.to;
    asking.paint({ rows: packet.T, columns: packet.S, seen: brush.seen });
  }
  const lift = () => { brush = null; };
  const listeners = {
    pointermove(event) {
      if (!state.scene) return;
      state.hover = place(event);
      if (brush) stroke(state.hover ?? {});
      if (!acts.busy()) acts.drawGlass();
    },
    pointerleave() {
      state.hover = null;
      if (state.scene) acts.drawGlass();
    },
    pointerdown(event) {
      const at = state.scene && place(event);
      if (at?.row == null || at.column == null) return;
      state.cursor = at;
      if (acts.paints()) {
        glass.setPointerCapture(event.pointerId);
        stroke(at);
      }
      acts.drawGlass();
    },
    pointerup: lift,
    pointercancel: lift,
    focus() {
      state.cursor = state.cursor ?? { row: 0, column: 0 };
      if (state.scene && glass.matches(":focus-visible")) acts.drawGlass();
    },
  };
  for (const [event, call] of Object.entries(listeners)) glass.addEventListener(event, call);
  return (at) => {
    stroke(at);
    lift();
  };
}

/** Answer to keys, and keep those that are answered from JupyterLab. Return how to stop. */
function pressKeys(state, { root, glass, list }, paint, acts) {
  const far = 1e6, turn = (by) => acts.choose(acts.current().layer, acts.current().slot + by);
  const step = (row, column) => {
    const { T, S } = state.packet, from = { row: 0, column: 0, ...state.cursor };
    state.cursor = { row: clamp(from.row + row, T - 1), column: clamp(from.column + column, S - 1) };
    state.hover = null;
  };
  const inLarge = {
    ArrowRight: () => step(0, 1), ArrowLeft: () => step(0, -1), ArrowDown: () => step(1, 0), ArrowUp: () => step(-1, 0),
    Home: () => step(0, -far), End: () => step(0, far), PageUp: () => turn(-1), PageDown: () => turn(1),
    Escape: () => { state.cursor = null; },
    " ": () => { if (acts.paints() && state.cursor) paint(state.cursor); },
  };
  function pressLarge(key) {
    if (!Object.hasOwn(inLarge, key)) return false;
    inLarge[key]();
    acts.drawGlass();
    return true;
  }
  function pressThumb(key, shift, target) {
    const { slots, L } = state.packet, { layer, slot } = acts.current(), last = L * slots - 1;
    const across = L > 1 ? slots : getComputedStyle(list).gridTemplateColumns.split(" ").length;
    const own = state.thumbs.findIndex(({ node }) => node === target), from = shift ? own : layer * slots + slot;
    if (key === "Enter" && shift) acts.compare(own);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -from, End: last - from };
    if (!Object.hasOwn(steps, key)) return key === "Enter" && shift;
    const to = from + steps[key];
    if (to < 0 || to > last) return true;
    state.thumbs[to].node.focus();
    if (!shift) acts.choose(Math.floor(to / slots), to % slots); // with Shift one looks for a head to compare with
    return true;
  }
  const press = (event) => { // on the window, because JupyterLab listens on the document before we would hear of it
    const path = event.composedPath(), target = path[0];
    if (!path.includes(root) || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    if (["INPUT", "SELECT"].includes(target.tagName)) {
      if (event.key !== "Escape") event.stopPropagation(); // they answer by themselves
      return;
    }
    const ours = target === glass ? pressLarge(event.key) : list.contains(target) && pressThumb(event.key, event.shiftKey, target);
    const answers = [" ", "Enter"].includes(event.key) && ["BUTTON", "SUMMARY"].includes(target.tagName);
    if (ours || answers) event.stopPropagation();
    if (ours) event.preventDefault();
  };
  window.addEventListener("keydown", press, true);
  return () => window.removeEventListener("keydown", press, true);
}
