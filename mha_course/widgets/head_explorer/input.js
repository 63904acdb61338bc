// Pointer and keyboard: what is pointed at, what is chosen, and what is painted. `explorer` is that of widget.js.

import { clamp, hasModifier } from "../dom.js";
import { cellAt } from "./draw.js";

/** A brush for masks: all cells of a stroke become what its first one became. */
function makeBrush(explorer) {
  let stroke = null;
  function paint({ row, column }) {
    if (row == null || column == null) return;
    const rows = stroke?.rows ?? explorer.visibleMask().map((cells) => [...cells]);
    stroke ??= { rows, to: rows[row][column] === "1" ? "0" : "1" };
    if (rows[row][column] === stroke.to) return;
    rows[row][column] = stroke.to;
    explorer.recompute.paint(rows.map((cells) => cells.join("")));
  }
  const lift = () => (stroke = null);
  return { paint, lift, down: () => stroke !== null };
}

/** Follow the pointer over the large picture; with a painted mask it is a brush, which is returned. */
export function followPointer(explorer) {
  const { overlay } = explorer;
  const brush = makeBrush(explorer);
  const place = ({ clientX, clientY }) => {
    const { left, top, width } = overlay.getBoundingClientRect();
    const grown = width / overlay.offsetWidth; // on a slide
    return cellAt({ x: (clientX - left) / grown, y: (clientY - top) / grown }, explorer.scene.plan, explorer.maps);
  };
  const listeners = {
    pointermove(event) {
      explorer.hover = place(event);
      if (brush.down()) brush.paint(explorer.hover ?? {});
      explorer.drawOverlay();
    },
    pointerleave() {
      explorer.hover = null;
      explorer.drawOverlay();
    },
    pointerdown(event) {
      const at = place(event);
      if (at?.row == null || at.column == null) return;
      explorer.cursor = at;
      if (explorer.recompute.painting()) {
        overlay.setPointerCapture(event.pointerId);
        brush.paint(at);
      }
      explorer.drawOverlay();
    },
    pointerup: brush.lift,
    pointercancel: brush.lift,
    focus() {
      explorer.cursor ??= { row: 0, column: 0 };
      if (overlay.matches(":focus-visible")) explorer.drawOverlay();
    },
  };
  for (const [event, call] of Object.entries(listeners)) {
    overlay.addEventListener(event, (details) => {
      if (explorer.scene) call(details); // else nothing is drawn yet
    });
  }
  return brush;
}

function keysOfLarge(explorer, brush) {
  const move = (down, right) => () => {
    const { T, S } = explorer.maps;
    const { row, column } = { row: 0, column: 0, ...explorer.cursor };
    explorer.cursor = { row: clamp(row + down, 0, T - 1), column: clamp(column + right, 0, S - 1) };
    explorer.hover = null;
  };
  const turn = (by) => () => {
    const { layer, slot } = explorer.current();
    explorer.choose(layer, slot + by);
  };
  function toggle() {
    if (!explorer.recompute.painting() || !explorer.cursor) return;
    brush.paint(explorer.cursor);
    brush.lift();
  }
  return {
    ArrowRight: move(0, 1),
    ArrowLeft: move(0, -1),
    ArrowDown: move(1, 0),
    ArrowUp: move(-1, 0),
    Home: move(0, -Infinity),
    End: move(0, Infinity),
    PageUp: turn(-1),
    PageDown: turn(1),
    Escape: () => (explorer.cursor = null),
    " ": toggle,
  };
}

/** Answer to a key among the small pictures, and say whether it was one of ours. */
function pressThumb(explorer, { key, shiftKey }, target) {
  const { slots, L } = explorer.maps;
  const { layer, slot } = explorer.current();
  const last = L * slots - 1;
  const own = explorer.thumbs.findIndex(({ node }) => node === target);
  if (key === "Enter" && shiftKey) {
    explorer.compare(own);
    return true;
  }
  const from = shiftKey ? own : layer * slots + slot;
  const across = L > 1 ? slots : getComputedStyle(explorer.list).gridTemplateColumns.split(" ").length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -from, End: last - from };
  if (!Object.hasOwn(steps, key)) return false;
  const to = from + steps[key];
  if (to < 0 || to > last) return true;
  explorer.thumbs[to].node.focus();
  if (!shiftKey) explorer.choose(Math.floor(to / slots), to % slots); // with Shift one looks for a head to compare with
  return true;
}

/** Answer to keys, and keep those that are answered from JupyterLab. Return how to stop. */
export function followKeys(explorer, brush) {
  const { root, overlay, list } = explorer;
  const large = keysOfLarge(explorer, brush);
  function answer(event, target) {
    if (target !== overlay) return list.contains(target) && pressThumb(explorer, event, target);
    if (!Object.hasOwn(large, event.key)) return false;
    large[event.key]();
    explorer.drawOverlay();
    return true;
  }
  function press(event) {
    // on the window, because JupyterLab listens on the document before we would hear of it
    const path = event.composedPath();
    const [target] = path;
    if (!path.includes(root) || hasModifier(event) || event.key === "Tab") return;
    if (target.matches("input, select")) {
      // they answer by themselves
      if (event.key !== "Escape") event.stopPropagation();
      return;
    }
    const ours = answer(event, target);
    const pressed = target.matches("button, summary") && [" ", "Enter"].includes(event.key);
    if (ours || pressed) event.stopPropagation();
    if (ours) event.preventDefault();
  }
  window.addEventListener("keydown", press, true);
  return () => window.removeEventListener("keydown", press, true);
}
