// A button that lets a picture fill the screen.

import { makeButton, setText } from "../../../widgets/dom.js";

/** Return the button, hidden where the browser has no full screen, and how to stop; `changed` is called when it changes. */
export function makeFullScreen(root, changed) {
  const button = makeButton("screen", "Full screen", () =>
    document.fullscreenElement === root ? document.exitFullscreen() : root.requestFullscreen(),
  );
  button.hidden = !document.fullscreenEnabled || !root.requestFullscreen;
  function follow() {
    const full = document.fullscreenElement === root;
    root.classList.toggle("full", full);
    setText(button, full ? "Leave full screen" : "Full screen");
    changed();
  }
  document.addEventListener("fullscreenchange", follow);
  return { button, stop: () => document.removeEventListener("fullscreenchange", follow) };
}
