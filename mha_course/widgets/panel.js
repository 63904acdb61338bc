// What ipywidgets leaves out for those who do not see its controls: names, and which button of a row is down.

function render({ el }) {
  let [panel, frame] = [null, 0];
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
    for (const button of panel.querySelectorAll(".widget-toggle-button"))
      button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
  }
  const watch = new MutationObserver(tell);
  function start() {
    panel = el.closest(".mha-panel");
    if (!panel) return (frame = requestAnimationFrame(start)); // not in the page yet
    watch.observe(panel, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
    tell();
  }
  start();
  return () => {
    watch.disconnect();
    cancelAnimationFrame(frame);
  };
}

export default { render };
