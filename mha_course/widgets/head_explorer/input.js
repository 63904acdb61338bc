// Pointer and keyboard: what is pointed at, and what is chosen. `explorer` is that of widget.js.

import { clamp } from "../dom.js";
import { cellAt } from "./picture.js";

export function followPointer(explorer) {
  const { surface } = explorer;
  const place = ({ clientX, clientY }) => {
    const { left, top, width } = surface.getBoundingClientRect();
    const zoom = width / surface.offsetWidth; // on a slide
    return cellAt(
      { x: (clientX - left) / zoom, y: (clientY - top) / zoom },
      explorer.plan,
      explorer.maps,
    );
  };
  const listeners = {
    pointermove: (event) => explorer.point({ hover: place(event) }),
    pointerleave: () => explorer.point({ hover: null }),
    pointerdown(event) {
      const at = place(event);
      if (at?.row != null && at.column != null) explorer.point({ cursor: at });
    },
    focus() {
      explorer.cursor ??= { row: 0, column: 0 };
      if (surface.matches(":focus-visible")) explorer.point({});
    },
  };
  for (const [event, call] of Object.entries(listeners)) {
    surface.addEventListener(event, (details) => {
      if (explorer.plan) call(details); // else nothing is drawn yet
    });
  }
}

/** Answer to a key in the large picture, and say whether it was one of ours. */
export function pressLarge(explorer, { key }) {
  const { T, S } = explorer.maps;
  const { row, column } = { row: 0, column: 0, ...explorer.cursor };
  const { layer, slot } = explorer.current();
  const move = (down, right) => () =>
    explorer.point({
      cursor: { row: clamp(row + down, 0, T - 1), column: clamp(column + right, 0, S - 1) },
      hover: null,
    });
  const answers = {
    ArrowRight: move(0, 1),
    ArrowLeft: move(0, -1),
    ArrowDown: move(1, 0),
    ArrowUp: move(-1, 0),
    Home: move(0, -S),
    End: move(0, S),
    PageUp: () => explorer.choose({ layer, slot: slot - 1 }),
    PageDown: () => explorer.choose({ layer, slot: slot + 1 }),
    Escape: () => explorer.point({ cursor: null }),
  };
  const ours = Object.hasOwn(answers, key);
  if (ours) answers[key]();
  return ours;
}

/** Answer to a key among the small pictures, and say whether it was one of ours. */
export function pressThumb({ maps, thumbs, list, current, choose }, { key }) {
  const { layer, slot } = current();
  const [last, from] = [thumbs.length - 1, layer * maps.slots + slot];
  const across =
    maps.R > 1 ? maps.slots : getComputedStyle(list).gridTemplateColumns.split(" ").length;
  const steps = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: across,
    ArrowUp: -across,
    Home: -from,
    End: last - from,
  };
  if (!Object.hasOwn(steps, key)) return false;
  const to = thumbs[from + steps[key]];
  to?.node.focus();
  if (to) choose(to.at);
  return true;
}
