// Pointer and keyboard: hovering and choosing. `explorer` is defined in widget.js.

import { cellAt, neighbour, pointOn } from "../matrix.js";

export function followPointer(explorer) {
  const { surface } = explorer;
  const place = (event) => cellAt(pointOn(surface, event), explorer.plan, explorer.maps);
  const listeners = {
    pointermove: (event) => explorer.point({ hover: place(event) }),
    pointerleave: () => explorer.point({ hover: null }),
    pointerdown(event) {
      const at = place(event);
      if (at?.row == null) return;
      if (at.column != null) explorer.point({ cursor: at });
      explorer.put({ row: at.row });
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

function chooseHead(explorer, { key }) {
  const step = { PageUp: -1, PageDown: 1 }[key];
  const { layer, slot } = explorer.chosen();
  if (step) explorer.choose({ layer, slot: slot + step });
  return Boolean(step);
}

/** Follow the row that the arrow keys have reached, as a click on its cell does. */
function followCursor(explorer) {
  if (explorer.cursor) explorer.put({ row: explorer.cursor.row });
}

/** Answer to a key in the large picture, and say whether it was one of ours. */
export function pressLarge(explorer, event) {
  const { key } = event;
  const cell = neighbour(key, { row: 0, column: 0, ...explorer.cursor }, explorer.maps);
  if (cell) explorer.point({ cursor: cell, hover: null });
  else if ([" ", "Enter"].includes(key))
    followCursor(explorer); // or Space would scroll the page
  else if (key === "Escape") explorer.point({ cursor: null });
  else return chooseHead(explorer, event);
  return true;
}

/** Answer to a key in the sentence, and say whether it was one of ours. */
export function pressSentence(explorer, event) {
  const ours = explorer.arcs.press(event) || chooseHead(explorer, event);
  if (ours) explorer.point({ hover: null });
  return ours;
}

/** Answer to a key among the small pictures, and say whether it was one of ours. */
export function pressThumb(explorer, { key }) {
  const { maps, thumbs, list } = explorer;
  const { layer, slot } = explorer.chosen();
  const [last, from] = [thumbs.length - 1, layer * maps.slots + slot];
  const columns = () => getComputedStyle(list).gridTemplateColumns.split(" ").length;
  const across = maps.R > 1 ? maps.slots : columns();
  const steps = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: across,
    ArrowUp: -across,
    Home: -from,
    End: last - from,
  };
  if (!Object.hasOwn(steps, key)) return false;
  const chosen = thumbs[from + steps[key]];
  chosen?.node.focus();
  if (chosen) explorer.choose(chosen.at);
  return true;
}
