// A page of the reading site: its colours, its contents, and widgets that wake when they come near.

import { enliven } from "./live.js";

const root = document.documentElement;
const NEAR = "800px"; // before a widget is in sight
const WIDE = matchMedia("(min-width: 1100px)"); // contents stand beside the text, as in the style sheet
const DARK = matchMedia("(prefers-color-scheme: dark)");
const remembered = "theme";

function paint() {
  let chosen = null;
  try {
    chosen = localStorage.getItem(remembered);
  } catch {
    // A page from a file may have no memory.
  }
  root.dataset.jpThemeLight = String(
    (chosen ?? root.dataset.chosen ?? String(!DARK.matches)) === "true",
  );
}

/** Take the other colours, here and on other pages. */
function change() {
  root.dataset.chosen = String(root.dataset.jpThemeLight !== "true");
  try {
    localStorage.setItem(remembered, root.dataset.chosen);
  } catch {
    // Then for this page alone.
  }
  paint();
}

/** Unfold whatever hides the place that an address names. */
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.closest("details");
  if (!fold) return;
  fold.open = true;
  target.scrollIntoView();
}

/** Call a function once with each node that comes within so many pixels of the window. */
function whenNear(nodes, rootMargin, call) {
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watch.unobserve(target);
        call(target);
      }
    },
    { rootMargin },
  );
  for (const node of nodes) watch.observe(node);
}

/** Mark the section that is being read in the contents. */
function follow() {
  const headings = [...document.querySelectorAll("article h2[id]")];
  const above = headings.filter((one) => one.getBoundingClientRect().top < 120).at(-1);
  for (const link of document.querySelectorAll(".contents a")) {
    const isHere = link.hash.slice(1) === above?.id;
    if (isHere) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

const button = document.querySelector(".theme");
if (button) {
  button.hidden = false;
  button.addEventListener("click", change);
}
DARK.addEventListener("change", paint);
paint();

const contents = document.querySelector(".contents details");
if (contents) {
  const fit = () => (contents.open = WIDE.matches);
  WIDE.addEventListener("change", fit);
  fit();
  addEventListener("scroll", () => requestAnimationFrame(follow), { passive: true });
}
addEventListener("hashchange", unfold);
unfold();
whenNear(document.querySelectorAll(".live"), NEAR, (place) => enliven([place]));
