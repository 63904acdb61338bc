import { enliven } from "./live.js";

const main = document.querySelector("main");
const CONTROLS = "a, summary, input, select, button, .live";
const root = document.documentElement;
const begun = Date.now();
const LEAST = 0.76; // of the size of letters: the smallest are then 20 pixels
const SPLIT = 0.9; // below it, what comes last goes on to the next slide
const PICTURE = { scale: 0.92 / 1.5, most: 710 }; // see FINE and SLIDE_HEIGHT of plots/figures.py
let slides = [],
  at = 0,
  entered = Date.now(),
  view = null;

const section = (n) => {
  while (n > 0 && !slides[n].dataset.minutes) n -= 1;
  return n;
};
const minutesOf = (n) => Number(slides[n].dataset.minutes || 0);
const minutesTo = (n) => slides.slice(0, n).reduce((all, _, i) => all + minutesOf(i), 0);
const fragments = (n) => [...slides[n].querySelectorAll(".fragment")];

/** Lay out all slides: what comes last on one that has no room for it goes on to the next. */
function layOut() {
  for (const image of document.images)
    image.style.minHeight = `${Math.min(image.naturalHeight * PICTURE.scale, PICTURE.most)}px`;
  for (
    let slide = main.firstElementChild;
    slide.matches("section");
    slide = slide.nextElementSibling
  ) {
    const content = slide.querySelector(".content");
    let rest = null;
    while (!fits(slide, content)) {
      rest ??= following(slide);
      rest.querySelector(".content").prepend(content.lastElementChild);
    }
  }
  slides = [...main.querySelectorAll(":scope > section")]; // a widget may have sections of its own
  slides.forEach((slide, i) => {
    slide.ariaLabel = `Slide ${i + 1} of ${slides.length}: ${slide.firstElementChild.textContent}`;
  });
}

/** Put an empty slide with the same heading behind one. */
function following(slide) {
  const made = document.createElement("section");
  made.tabIndex = -1;
  made.innerHTML = `<h2>${slide.firstElementChild.innerHTML}</h2><div class="content"></div>`;
  slide.after(made);
  return made;
}

const isOneTall = (images) =>
  images.length === 1 && images[0].naturalWidth < 1.6 * images[0].naturalHeight;

/** Make the letters of a slide as large as they have room; return false where it should have fewer parts. */
function fits(slide, content) {
  const images = content.querySelectorAll("figure img");
  const [last, title] = [content.lastElementChild, slide.matches(".title")];
  const single = title || content.children.length < 2;
  slide.classList.toggle("beside", isOneTall(images) && !single);
  const least = single || last.matches(".fragment") ? LEAST : SPLIT;
  for (let size = images.length || title ? 1 : 1.25; size >= least; size -= 0.025) {
    slide.style.setProperty("--fit", size.toFixed(3));
    if (!spills(content)) return true;
  }
  return single;
}

function spills(content) {
  const wide = (part) => part.scrollWidth > part.clientWidth; // words may be higher: mathematics hangs over its line
  const high = content.scrollHeight > content.clientHeight;
  return high || [content, ...content.querySelectorAll("pre, .words, .html, figure")].some(wide);
}

function scale() {
  const factor = Math.min(innerWidth / 1920, innerHeight / 1080);
  const [x, y] = [(innerWidth - 1920 * factor) / 2, (innerHeight - 1080 * factor) / 2];
  main.style.transform = `translate(${x}px, ${y}px) scale(${factor})`;
}

function show(n, seen = false) {
  n = Math.max(0, Math.min(slides.length - 1, n));
  if (section(n) !== section(at)) entered = Date.now();
  at = n;
  slides.forEach((slide, i) => {
    slide.classList.toggle("current", i === at);
    slide.inert = i !== at;
    slide.ariaHidden = i !== at ? "true" : null;
  });
  fragments(at).forEach((part) => part.classList.toggle("seen", seen));
  document.querySelector("footer output").value = `${at + 1} / ${slides.length}`;
  document.querySelector(".progress").style.width = `${(1920 * (at + 1)) / slides.length}px`;
  history.replaceState(null, "", `#${at + 1}`);
  slides[at].focus({ preventScroll: true });
  tell();
}

function next() {
  const hidden = fragments(at).find((part) => !part.classList.contains("seen"));
  if (hidden) hidden.classList.add("seen");
  else if (at < slides.length - 1) show(at + 1);
}

function back() {
  const seen = fragments(at).filter((part) => part.classList.contains("seen"));
  if (seen.length) seen.at(-1).classList.remove("seen");
  else if (at > 0) show(at - 1, true);
}

function speaker() {
  view = window.open("", "speaker", "width=1180,height=720");
  if (!view) return;
  const page = view.document;
  page.title = "Speaker";
  page.head.replaceChildren(document.querySelector("style").cloneNode(true));
  page.body.className = "speaker";
  page.body.innerHTML = `<div id="time"><b></b><span></span><time></time></div>
    <div id="notes"><h2></h2><div></div></div><div id="next"><p></p><main></main></div>`;
  page.onkeydown = keys;
  page.body.dataset.shown = "";
  tell();
}

/** Copy a slide as it will be when all of it is seen; what is drawn on a canvas is copied, too. */
function pictureOf(slide) {
  const copy = slide.cloneNode(true);
  copy.inert = false;
  copy.classList.add("current");
  copy.querySelectorAll(".fragment").forEach((part) => part.classList.add("seen"));
  const drawn = [...slide.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    if (drawn[i].width && drawn[i].height) canvas.getContext("2d").drawImage(drawn[i], 0, 0);
  });
  return copy;
}

function tell() {
  if (!view || view.closed) return;
  const page = view.document;
  const part = (selector) => page.querySelector(selector);
  const first = section(at);
  const span = (since) => {
    const seconds = Math.floor((Date.now() - since) / 1000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };
  page.documentElement.className = root.classList.contains("dark") ? "dark" : "";
  const [from, whole] = [minutesTo(first), minutesTo(slides.length)];
  const plan = `the plan for here: ${from} to ${from + minutesOf(first)} of ${whole} min`;
  part("#time b").textContent = span(begun);
  part("#time span").textContent =
    `${plan} · this section: ${span(entered)} of ${minutesOf(first)} min`;
  part("time").textContent = new Date().toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
  });
  const shown = `${at} ${page.documentElement.className}`;
  if (page.body.dataset.shown === shown) return;
  page.body.dataset.shown = shown;
  part("#notes > h2").textContent = slides[at].ariaLabel;
  const asides = [slides[first].querySelector(".notes"), slides[at].querySelector(".prose")];
  part("#notes > div").innerHTML = asides.map((one) => one?.innerHTML ?? "").join("<hr>");
  const following = slides[at + 1];
  part("#next > p").textContent = following
    ? `Next: ${following.ariaLabel}`
    : "This is the last slide.";
  part("#next > main").replaceChildren(...(following ? [pictureOf(following)] : []));
}

function keys(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const does = {
    ArrowRight: next,
    ArrowDown: next,
    PageDown: next,
    " ": next,
    ArrowLeft: back,
    ArrowUp: back,
    PageUp: back,
    Home: () => show(0),
    End: () => show(slides.length - 1),
    s: speaker,
    d: () => root.classList.toggle("dark"),
    f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()),
  };
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const inside = event.target.closest?.(CONTROLS);
  if (!does[key] || (inside && !key.startsWith("Page"))) return;
  event.preventDefault();
  if (event.shiftKey && key === " ") back();
  else does[key]();
}

addEventListener("keydown", keys);
addEventListener("keydown", (event) => event.key.startsWith("Page") && keys(event), true); // a widget has them not
addEventListener("resize", scale);
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
if (matchMedia("(prefers-color-scheme: dark)").matches) root.classList.add("dark");
addEventListener("load", async () => {
  enliven(document.querySelectorAll(".live"));
  await Promise.all([...document.images].map((image) => image.decode().catch(() => image.alt)));
  layOut();
  scale();
  show(Number(location.hash.slice(1)) - 1 || 0);
  setInterval(tell, 1000);
  root.dataset.ready = "yes";
});
