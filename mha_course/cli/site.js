// A page of the reading site: its colours, and widgets that wake when they come near.

import { enliven } from "./live.js";
import { prepare } from "./present.js";
import { prepareSearch } from "./search.js";

const root = document.documentElement;
const NEAR = "800px"; // before a widget is in sight
const DARK = matchMedia("(prefers-color-scheme: dark)");
const BESIDE = matchMedia("(min-width: 1100px)"); // there is room for the contents, as in site.css
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

/** Return the storage for the colours: only for this page if pages from files have none. */
function memory() {
  try {
    return localStorage;
  } catch {
    return root.dataset;
  }
}

function paint() {
  root.dataset.jpThemeLight = memory().theme ?? String(!DARK.matches);
}

/** Switch colours, here and on other pages. */
function change() {
  memory().theme = String(root.dataset.jpThemeLight !== "true");
  paint();
}

/** Open the contents beside the text, where their fold has no handle. */
function openContents() {
  const fold = document.querySelector(".contents details");
  if (fold) fold.open = BESIDE.matches;
}

/** Unfold whatever hides the target of an address. */
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.closest("details");
  if (!fold) return;
  fold.open = true;
  target.scrollIntoView();
}

/** Start the widgets that have scrolled near; the one at the top of the index plays once. */
function wake(entries, watch) {
  const near = entries.filter(({ isIntersecting }) => isIntersecting).map(({ target }) => target);
  near.forEach((place) => watch.unobserve(place));
  enliven(near);
  const opening = near.find((place) => "plays" in place.dataset);
  if (!STILL.matches) opening?.querySelector("button.play").click();
}

/** Let keys scroll what is wider than its space. */
function reach() {
  for (const part of document.querySelectorAll(
    "article :is(pre, p, table, figure, math, .html):not(.live *)",
  ))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
}

const button = document.querySelector(".theme");
button.hidden = false;
button.addEventListener("click", change);
DARK.addEventListener("change", paint);
paint();
prepare(document.querySelector(".present"), change);
prepareSearch(document.querySelector(".lessons"));

BESIDE.addEventListener("change", openContents);
openContents();
addEventListener("hashchange", unfold);
unfold();
for (const event of ["load", "resize", "toggle"]) addEventListener(event, reach, true);
const watch = new IntersectionObserver(wake, { rootMargin: NEAR });
document.querySelectorAll(".live").forEach((place) => watch.observe(place));
