// A page that presents itself: its pictures and widgets move to slides, and back again.

import { enliven } from "./live.js";

const WIDTH = 1920;
const HEIGHT = 1080;
const SMALLEST = 0.5; // of that size; below it a slide is a column that scrolls
const WIDGET = { width: 992, most: 1.74 }; // laid out as wide as on a page, and so much larger
const LEAST = 0.76; // of the size of letters
const SPLIT = 0.9; // below it, what comes last goes on to the next slide
const CONTROLS = "a, summary, input, select, button, dialog, .live";
const KEYS = [
  ["→ ↓ space PageDown", "on, or show what waits"],
  ["← ↑ PageUp", "back"],
  ["Home, End", "first and last slide"],
  ["Esc or O", "all slides"],
  ["G", "go to a slide"],
  ["S", "the speaker's window"],
  ["B", "black screen"],
  ["F, D", "full screen, dark"],
  ["P", "back to the page"],
  ["?", "these keys"],
];

const talk = JSON.parse(document.getElementById("talk")?.textContent ?? "[]");
const article = document.querySelector("article");
const first = article?.querySelector("figure img")?.cloneNode(); // before a widget takes its place
const places = new Map(); // of what was moved to a slide: the mark that it left on the page
let stage = null;
let slides = []; // sections, some of which go on with the one before
let at = 0;
let from = null; // where a finger came down
let view = null; // the speaker's window
let begun = 0;
let entered = 0;
let changeColours = null;
const watch = new ResizeObserver((changes) => changes.forEach(({ target }) => enlarge(target)));

const $ = (selector) => stage.querySelector(selector);
const inColumn = () => scaleOfWindow() < SMALLEST;
const scaleOfWindow = () =>
  Math.min(document.documentElement.clientWidth / WIDTH, innerHeight / HEIGHT);
const waiting = (slide) => [...slide.querySelectorAll("[data-waits]")];
const told = (slide) => talk[slide.dataset.of] ?? {};

/** Let a page present itself: by its button, by P, or because its address asks for it. */
export function prepare(button, repaint) {
  if (!talk.length) return;
  changeColours = repaint;
  button.hidden = false;
  button.addEventListener("click", () => present(inSight()));
  addEventListener("keydown", keys);
  addEventListener("keydown", (event) => event.key.startsWith("Page") && keys(event), true); // a widget has them not
  addEventListener("resize", resize);
  addEventListener("hashchange", arrive);
  addEventListener("beforeprint", () => stage && slides.forEach((slide) => reveal(slide, true)));
  addEventListener("load", arrive);
}

/** Go to the slide that the address names. */
function arrive() {
  const named = /^#slide-(\d+)$/.exec(location.hash);
  const opens =
    new URLSearchParams(location.search).has("present") ||
    "presented" in document.getElementById("talk").dataset;
  if (stage && named) show(named[1] - 1);
  else if (named || (opens && !location.hash)) present(named ? named[1] - 1 : 0);
}

/** Return the number of the slide that shows what is in sight on the page. */
function inSight() {
  if (scrollY < innerHeight / 2) return 0;
  const blocks = [...article.querySelectorAll("[data-slide]:not([data-alone])")];
  const block = blocks.find((one) => one.getBoundingClientRect().bottom > innerHeight / 4);
  return Number(block?.dataset.slide ?? talk.length - 1);
}

/** Put all that slides show on slides, lay them out, and show the one of this number. */
async function present(n) {
  stage = document.createElement("div");
  stage.className = "stage";
  stage.innerHTML = `<main></main>
    <footer><span></span><button aria-label="Back">‹</button><output></output><button aria-label="Next">›</button>
    <i class="progress"></i></footer><dialog></dialog><style>@page { size: ${WIDTH}px ${HEIGHT}px; margin: 0 }</style>`;
  slides = talk.map(slideOf);
  $("main").append(...slides);
  $("footer span").innerHTML = talk[0].heading;
  const [before, after] = stage.querySelectorAll("footer button");
  before.addEventListener("click", back);
  after.addEventListener("click", next);
  stage.addEventListener("click", choose);
  stage.addEventListener("pointerdown", press);
  stage.addEventListener("pointerup", lift);
  document.body.append(stage);
  document.body.classList.add("presenting");
  begun ||= Date.now();
  entered = Date.now();
  enliven(stage.querySelectorAll(".live"));
  await Promise.all(
    [...stage.querySelectorAll("img")].map((image) => image.decode().catch(Boolean)),
  );
  await new Promise(requestAnimationFrame);
  if (!stage) return;
  layOut();
  show(
    Math.max(
      0,
      slides.findIndex((slide) => Number(slide.dataset.of) >= n),
    ),
  );
  document.documentElement.dataset.ready = "yes";
}

/** Put what the page has for a slide on it. */
function slideOf({ heading, title }, number) {
  const slide = document.createElement("section");
  slide.className = title ? "title" : "";
  slide.tabIndex = -1;
  slide.dataset.of = number;
  slide.innerHTML = `<h2>${heading}</h2><div class="content"></div>`;
  for (const block of article.querySelectorAll(`[data-slide="${number}"]`)) {
    const place = document.createComment("");
    block.replaceWith(place);
    places.set(block, place);
    slide.lastElementChild.append(block);
  }
  if (title && first && !number) {
    const figure = document.createElement("figure");
    figure.append(first.cloneNode());
    slide.lastElementChild.append(figure);
    slide.dataset.course = document.querySelector(".masthead > a").textContent;
  }
  return slide;
}

/** Bring all back to the page, and go on where the slides were. */
function leave() {
  const here = slides[at].querySelector("[data-slide]");
  slides.forEach((slide) => reveal(slide, false));
  watch.disconnect();
  for (const [block, place] of places) {
    block.style.zoom = "";
    place.replaceWith(block);
  }
  places.clear();
  stage.remove();
  stage = null;
  document.body.classList.remove("presenting");
  delete document.documentElement.dataset.ready;
  history.replaceState(null, "", "#");
  const fold = here?.closest("details:not([open])");
  if (fold) fold.open = true;
  here?.scrollIntoView({ block: "center" });
}

/** Lay out all slides: what comes last on one that has no room for it goes on to the next. */
function layOut() {
  const column = inColumn();
  stage.classList.toggle("column", column);
  for (let n = 0; n < slides.length && !column; n += 1) {
    const content = slides[n].lastElementChild;
    waiting(slides[n]).forEach((part) => (part.open = true));
    for (const widget of content.querySelectorAll(".live")) {
      enlarge(widget);
      watch.observe(widget); // it may grow
    }
    let rest = null;
    while (!fits(slides[n], content)) {
      rest ??= goOn(n);
      rest.lastElementChild.prepend(content.lastElementChild);
    }
  }
  slides.forEach((slide, n) => {
    slide.ariaLabel = `Slide ${n + 1} of ${slides.length}: ${slide.firstElementChild.textContent}`;
    reveal(slide, false);
  });
  scale();
}

/** Put an empty slide with the same heading behind one. */
function goOn(n) {
  const slide = document.createElement("section");
  slide.tabIndex = -1;
  slide.dataset.of = slides[n].dataset.of;
  slide.dataset.goesOn = "yes";
  slide.innerHTML = `<h2>${slides[n].firstElementChild.innerHTML}</h2><div class="content"></div>`;
  slides[n].after(slide);
  slides.splice(n + 1, 0, slide);
  return slide;
}

/** Make a widget as large as its slide has room; its layout stays that of a page. */
function enlarge(widget) {
  if (inColumn()) return;
  const content = widget.closest(".content");
  const others = [...content.children].filter((part) => part !== widget);
  const room = content.clientHeight - others.reduce((all, part) => all + part.offsetHeight + 24, 0);
  widget.style.zoom = 1;
  widget.style.zoom = Math.max(1, Math.min(WIDGET.most, (room - 4) / widget.offsetHeight));
}

const isOneTall = (images) =>
  images.length === 1 && images[0].naturalWidth < 1.6 * images[0].naturalHeight;

/** Make the letters of a slide as large as they have room; return false where it should have fewer parts. */
function fits(slide, content) {
  const images = content.querySelectorAll("figure img");
  const last = content.lastElementChild;
  const title = slide.matches(".title");
  const single = title || content.children.length < 2;
  slide.classList.toggle("beside", !single && isOneTall(images));
  const least = single || last.matches("[data-waits]") ? LEAST : SPLIT;
  const most = content.querySelector(":scope > :not(pre, .python)") ? 1.25 : 1.6;
  for (let size = images.length || title ? 1 : most; size >= least; size -= 0.025) {
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
  const factor = scaleOfWindow();
  const x = (document.documentElement.clientWidth - WIDTH * factor) / 2;
  const y = (innerHeight - HEIGHT * factor) / 2;
  $("main").style.transform = `translate(${x}px, ${y}px) scale(${factor})`;
}

/** Fit the slides to the window; begin again where a slide becomes a column, or is none any more. */
function resize() {
  if (!stage) return;
  if (inColumn() === stage.matches(".column")) return scale();
  const number = Number(slides[at].dataset.of);
  leave();
  present(number);
}

/** Show what waits on a slide, or let it wait. */
function reveal(slide, seen) {
  for (const part of waiting(slide)) uncover(part, seen);
}

function uncover(part, seen) {
  part.classList.toggle("seen", seen);
  if (part.localName === "details") part.open = seen;
}

function show(n, seen = false) {
  n = Math.max(0, Math.min(slides.length - 1, n));
  if (section(n) !== section(at)) entered = Date.now();
  at = n;
  reveal(slides[at], seen);
  settle();
  $("footer output").value = `${at + 1} / ${slides.length}`;
  $(".progress").style.width = `${(100 * (at + 1)) / slides.length}%`;
  history.replaceState(null, "", `#slide-${at + 1}`);
  slides[at].focus({ preventScroll: true });
  tell();
}

/** Leave the current slide alone to eyes, keys and screen readers; in the overview, all headings. */
function settle() {
  const all = stage.matches(".overview");
  slides.forEach((slide, n) => {
    slide.classList.toggle("current", n === at);
    slide.inert = n !== at && !all;
    slide.ariaHidden = slide.inert ? "true" : null;
    slide.lastElementChild.inert = all;
  });
  if (all) slides[at].scrollIntoView({ block: "nearest" });
  else stage.scrollTo(0, 0);
}

function next() {
  const hidden = waiting(slides[at]).find((part) => !part.matches(".seen"));
  if (hidden && !stage.matches(".overview")) uncover(hidden, true);
  else if (at < slides.length - 1) show(at + 1);
}

function back() {
  const seen = waiting(slides[at]).filter((part) => part.matches(".seen"));
  if (seen.length && !stage.matches(".overview")) uncover(seen.at(-1), false);
  else if (at > 0) show(at - 1, true);
}

function overview() {
  stage.classList.toggle("overview");
  settle();
}

/** Show the slide that was clicked in the overview. */
function choose(event) {
  const slide = event.target.closest(".overview > main > section");
  if (!slide) return;
  stage.classList.remove("overview");
  show(slides.indexOf(slide));
}

/** Show the keys, and a field to go to a slide. */
function help(goes) {
  const rows = KEYS.map(([key, does]) => `<dt>${key}</dt><dd>${does}</dd>`).join("");
  const dialog = $("dialog");
  dialog.innerHTML = `<form method="dialog"><label>Go to slide
    <input type="number" min="1" max="${slides.length}" ${goes ? "autofocus" : ""}></label>
    <button ${goes ? "" : "autofocus"}>OK</button><dl>${rows}</dl></form>`;
  dialog.onclose = () => {
    const wanted = Number(dialog.querySelector("input").value);
    if (wanted) show(wanted - 1);
  };
  dialog.showModal();
}

function press(event) {
  const free = event.pointerType === "touch" && !event.target.closest(CONTROLS);
  from = free && !stage.matches(".overview") ? [event.clientX, event.clientY] : null;
}

/** Turn by a swipe, or by a tap near an edge. */
function lift(event) {
  if (!from) return;
  const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
  const place = event.clientX / innerWidth;
  const taps = Math.hypot(x, y) < 10;
  if (stage.matches(".black")) stage.classList.remove("black");
  else if ((x < -40 && -x > 2 * Math.abs(y)) || (taps && place > 2 / 3)) next();
  else if ((x > 40 && x > 2 * Math.abs(y)) || (taps && place < 1 / 3)) back();
  from = null;
}

/** Return the number of the slide with which a section begins. */
function section(n) {
  while (n > 0 && (!told(slides[n]).minutes || slides[n].dataset.goesOn)) n -= 1;
  return n;
}

const minutesOf = (n) => (slides[n].dataset.goesOn ? 0 : told(slides[n]).minutes);
const minutesTo = (n) => slides.slice(0, n).reduce((all, _, i) => all + minutesOf(i), 0);

function speaker() {
  view = window.open("", "speaker", "width=1280,height=760");
  if (!view) return;
  const page = view.document;
  page.title = "Speaker";
  page.head.replaceChildren(
    ...[...document.querySelectorAll("head style")].map((one) => one.cloneNode(true)),
  );
  page.body.className = "speaker";
  page.body.innerHTML = `<div id="time"><b></b><span></span><time></time></div>
    <div id="now" class="stage"><p></p><main></main></div><div id="next" class="stage"><p></p><main></main></div><div id="notes"></div>`;
  page.onkeydown = keys;
  page.body.dataset.shown = "";
  tell();
}

/** Copy a slide as it will be when all of it is seen; what is drawn on a canvas is copied, too. */
function pictureOf(slide) {
  const copy = slide.cloneNode(true);
  copy.inert = false;
  copy.classList.add("current");
  reveal(copy, true);
  const drawn = [...slide.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    if (drawn[i].width && drawn[i].height) canvas.getContext("2d").drawImage(drawn[i], 0, 0);
  });
  return copy;
}

/** Tell the speaker the time, the notes, and which slides are shown now and next. */
function tell() {
  if (!stage || !view || view.closed) return;
  const page = view.document;
  const part = (selector) => page.querySelector(selector);
  const begins = section(at);
  const span = (since) => {
    const seconds = Math.floor((Date.now() - since) / 1000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };
  const theme = document.documentElement.dataset.jpThemeLight;
  page.documentElement.dataset.jpThemeLight = theme;
  const [from, whole] = [minutesTo(begins), minutesTo(slides.length)];
  const plan = `the plan for here: ${from} to ${from + minutesOf(begins)} of ${whole} min`;
  part("#time b").textContent = span(begun);
  part("#time span").textContent =
    `${plan} · this section: ${span(entered)} of ${minutesOf(begins)} min`;
  part("time").textContent = new Date().toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
  });
  const shown = `${at} ${theme}`;
  if (page.body.dataset.shown === shown) return;
  page.body.dataset.shown = shown;
  const prose = [...article.querySelectorAll(`[data-notes="${slides[at].dataset.of}"]`)];
  const texts = [told(slides[begins]).notes, ...prose.map((block) => block.outerHTML)];
  part("#notes").innerHTML = texts.join("<hr>");
  for (const [place, slide] of [
    ["#now", slides[at]],
    ["#next", slides[at + 1]],
  ]) {
    part(`${place} p`).textContent = slide?.ariaLabel ?? "This is the last slide.";
    part(`${place} main`).replaceChildren(...(slide ? [pictureOf(slide)] : []));
  }
}

const DOES = {
  ArrowRight: next,
  ArrowDown: next,
  PageDown: next,
  " ": next,
  "Shift ": back,
  ArrowLeft: back,
  ArrowUp: back,
  PageUp: back,
  Home: () => show(0),
  End: () => show(slides.length - 1),
  Escape: overview,
  o: overview,
  Enter: () => stage.matches(".overview") && overview(),
  g: () => help(true),
  "?": () => help(false),
  b: () => stage.classList.add("black"),
  s: speaker,
  d: () => changeColours(),
  f: () =>
    document.fullscreenElement
      ? document.exitFullscreen()
      : document.documentElement.requestFullscreen(),
  p: leave,
};

/** Return the name of a key that is pressed for the slides, and not for a widget or the browser. */
function keyOf(event) {
  const { key, shiftKey } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return "";
  if (event.target.closest?.(CONTROLS) && !key.startsWith("Page")) return "";
  if (key === " " && shiftKey) return "Shift ";
  return key.length === 1 ? key.toLowerCase() : key;
}

function keys(event) {
  const key = keyOf(event);
  if (!stage) {
    if (key === "p") present(inSight());
    return;
  }
  if (!DOES[key]) return;
  event.preventDefault();
  if (stage.matches(".black")) stage.classList.remove("black");
  else DOES[key]();
}

setInterval(tell, 1000);
