// After Shift+Enter JupyterLab scrolls to the next cell, and a widget drawn then is above the visible part.
// So a widget brings its top into view, once, when it is first drawn after its cell was run.

const SETTLES = 1500; // milliseconds in which cells grow and JupyterLab scrolls
const SCROLLER = ".jp-WindowedPanel-outer"; // a notebook's, in JupyterLab
const MARGIN = 8; // pixels above the widget

/** Whether the cell of a node was run last: it is the active one, or the one before; folded ones do not count. */
function wasRun(node) {
  const cell = node.closest(".jp-Cell");
  const isActive = (other) => other?.classList.contains("jp-mod-active");
  if (!cell || isActive(cell)) return Boolean(cell);
  let next = cell.nextElementSibling;
  while (next && !isActive(next) && next.offsetHeight === 0) next = next.nextElementSibling;
  return isActive(next);
}

/** Bring the top of a node into view until it has settled, or the reader scrolls or types. Return how to stop. */
function bring(node) {
  const begin = performance.now();
  let due = 0;
  function stop() {
    cancelAnimationFrame(due);
    for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])
      window.removeEventListener(event, stop, true);
  }
  function follow() {
    due = requestAnimationFrame(follow);
    if (performance.now() - begin > SETTLES) return stop();
    const scroller = node.closest(SCROLLER);
    if (!scroller || !wasRun(node) || !node.offsetHeight) return; // which lays out, asked for last
    const [view, own] = [scroller, node].map((each) => each.getBoundingClientRect());
    const above = view.top + MARGIN - own.top;
    const below = Math.min(own.bottom + MARGIN - view.bottom, -above); // all of it, or its top
    if (above > 1) scroller.scrollTop -= above;
    else if (below > 1) scroller.scrollTop += below;
  }
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])
    window.addEventListener(event, stop, { capture: true, passive: true });
  follow();
  return stop;
}

/** Let a widget come into view when it is first drawn; not when it is drawn again after it was out of sight. */
export function inView(render) {
  const drawn = new WeakSet();
  return (context) => {
    const { model, el } = context;
    // A cell restored with a page was not run by its reader.
    const isRun = !drawn.has(model) && navigator.userActivation?.hasBeenActive;
    drawn.add(model);
    const stop = isRun ? bring(el) : () => {};
    const remove = render(context);
    return () => {
      stop();
      remove?.();
    };
  };
}
