// What ipywidgets leaves out: names for those who do not see its controls, which button of a row is down, arrow keys in
// menus, and a line that says where the kernel does not answer.

import { GONE, makeAsker } from "./controls.js";
import { make, say } from "./dom.js";

function render({ model, el }) {
  let [panel, frame] = [null, 0];
  const line = make("p", "trouble");
  line.setAttribute("role", "status");
  el.append(line);

  function tell() {
    for (const label of panel.querySelectorAll(".widget-label")) {
      const whole = label.parentNode,
        group = whole.matches(".widget-toggle-buttons");
      const named = group ? whole : whole.querySelector("[role=slider]");
      if (!named) continue; // the browser knows whose label it is
      named.setAttribute("aria-label", label.textContent);
      if (group) named.setAttribute("role", "group");
      const typed = whole.querySelector(".widget-readout");
      typed?.setAttribute("role", "textbox");
      typed?.setAttribute("aria-label", `${label.textContent}, typed`);
    }
    panel.querySelector(".widget-html-content")?.setAttribute("aria-live", "polite"); // the figure's alt text is read
    for (const menu of panel.querySelectorAll("select")) menu.dataset.lmSuppressShortcuts = true; // JupyterLab's arrows
    for (const button of panel.querySelectorAll(".widget-toggle-button"))
      button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
  }

  // What a control sends is ipywidgets' own affair; so the kernel is asked beside it whether it is there.
  const queue = makeAsker(model, "asked", () => say(line, `⚠ ${GONE}`));
  const ask = () => queue.ask({});
  function answered() {
    say(line, "");
    queue.landed(model.get("answered"));
    queue.pump();
  }
  const moves = ["change", "pointerup", "keyup"];
  const watch = new MutationObserver(tell);
  function start() {
    panel = el.closest(".mha-panel");
    if (!panel) return (frame = requestAnimationFrame(start)); // not in the page yet
    watch.observe(panel, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
    for (const move of moves) panel.addEventListener(move, ask);
    tell();
  }
  model.on("change:answered", answered);
  start();
  return () => {
    watch.disconnect();
    queue.stop();
    model.off("change:answered", answered);
    for (const move of moves) panel?.removeEventListener(move, ask);
    cancelAnimationFrame(frame);
  };
}

export default { render };
