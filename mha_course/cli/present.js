// A page that can become slides: its pictures and widgets move to slides, and back again.

import { enliven } from "./live.js";

const [WIDTH, HEIGHT] = [1920, 1080]; // of a slide
const COLUMN = matchMedia("(max-width: 960px), (max-height: 540px)"); // as in present.css
const CONTROLS = "a, summary, input, select, dialog"; // have keys and touches of their own
const STAGE = `<main></main>
  <footer><span></span><button data-does="ArrowLeft" aria-label="Back">‹</button>
  <output></output><button data-does="ArrowRight" aria-label="Next">›</button>
  <button data-does="p" aria-label="Back to the page">×</button></footer>
  <i class="progress"></i>
  <dialog><form method="dialog"><label>Go to slide <input type="number" min="1"></label>
  <button>OK</button><dl><dt>→ ↓ space PageDown<dd>on, or show what waits<dt>← ↑ PageUp<dd>back
  <dt>Home End<dd>first and last slide<dt>Esc O<dd>all slides<dt>G ?<dd>go to a slide, these keys
  <dt>S<dd>the speaker's window<dt>B<dd>black screen<dt>F D<dd>full screen, dark
  <dt>P<dd>back to the page</dl></form></dialog>
  <style>@page { size: ${WIDTH}px ${HEIGHT}px; margin: 0 }</style>`;
const SPEAKER = `<div id="time"><b></b><span></span><time></time></div>
  <div id="now" class="stage"><p></p><main></main></div>
  <div id="next" class="stage"><p></p><main></main></div><div id="notes"></div>`;

const data = document.getElementById("talk");
const talk = JSON.parse(data?.textContent ?? "[]");
const article = document.querySelector("article");
const picture = article?.querySelector("figure img")?.cloneNode(); // before a widget takes its place
const marks = new Map(); // what each block left on the page
const growing = new ResizeObserver((changes) => {
  for (const { target } of changes) enlarge(target.closest(".content").parentElement);
});
let stage = null;
let slides = [];
let at = 0;
let finger = null; // where it came down
let view = null; // the speaker's window
let begun = 0;
let entered = 0;
let changeColours = null;

const $ = (selector) => stage.querySelector(selector);
const waiting = (slide) => [...slide.querySelectorAll("[data-waits]")];

/** Turn a page into slides: by its button, by P, or by its address. */
export function prepare(button, repaint) {
  if (!data) return;
  changeColours = repaint;
  button.hidden = false;
  button.addEventListener("click", () => present(inSight()));
  addEventListener("keydown", keys);
  addEventListener("keydown", (event) => event.key.startsWith("Page") && keys(event), true); // no widget has them
  addEventListener("resize", scale);
  COLUMN.addEventListener("change", layOut);
  addEventListener("hashchange", arrive);
  addEventListener("load", arrive);
  setInterval(tell, 1000);
}

/** Go to the slide that the address names; without one, begin if it or the page asks for slides. */
function arrive() {
  const [, number] = /^#slide-(\d+)$/.exec(location.hash) ?? [];
  const asks = new URLSearchParams(location.search).has("present") || "presented" in data.dataset;
  if (stage && number) show(number - 1);
  else if (number || (asks && !location.hash)) present((number ?? 1) - 1);
}

/** Return the number of the slide that shows what is visible on the page. */
function inSight() {
  if (scrollY === 0) return 0; // the title is in sight, however little its slide has below it
  const blocks = [...article.querySelectorAll("[data-slide]:not([data-alone])")];
  const block = blocks.find((one) => one.getBoundingClientRect().bottom > innerHeight / 4);
  return Number(block?.dataset.slide ?? talk.length - 1);
}

/** Move the slides' content onto slides, lay them out, and show the one with this number. */
async function present(n) {
  stage = document.createElement("div");
  stage.className = "stage";
  stage.innerHTML = STAGE;
  slides = talk.map(slideOf);
  $("main").append(...slides);
  $("footer span").innerHTML = talk[0].heading;
  stage.addEventListener("click", choose);
  stage.addEventListener("touchstart", press, { passive: true });
  stage.addEventListener("touchend", lift);
  document.body.append(stage);
  document.body.classList.add("presenting");
  begun ||= Date.now();
  entered = Date.now();
  enliven(stage.querySelectorAll(".live"));
  const images = [...stage.querySelectorAll("img")];
  await Promise.all(images.map((image) => image.decode().catch(() => image.alt)));
  if (!stage) return; // the slides were left in the meantime
  layOut();
  show(n);
  document.documentElement.dataset.ready = "yes";
}

/** Move a slide's content from the page onto it. */
function slideOf({ heading, title }, number) {
  const slide = document.createElement("section");
  slide.tabIndex = -1;
  slide.innerHTML = `<h2>${heading}</h2><div class="content"></div>`;
  slide.ariaLabel = `Slide ${number + 1} of ${talk.length}: ${slide.textContent}`;
  const content = slide.lastElementChild;
  for (const block of article.querySelectorAll(`[data-slide="${number}"]`)) {
    marks.set(block, document.createComment(""));
    block.replaceWith(marks.get(block));
    content.append(block);
  }
  if (title) slide.className = "title";
  if (!number) {
    slide.dataset.course = document.querySelector(".masthead > a").textContent;
    content.append(document.createElement("figure"));
    content.lastElementChild.append(picture?.cloneNode() ?? "");
  }
  return slide;
}

/** Move everything back to the page, at the point where the slides were. */
function leave() {
  const here = slides[at].querySelector("[data-slide]:not([data-alone])"); // what is seen on the page
  slides.forEach((slide) => reveal(slide, false));
  growing.disconnect();
  marks.forEach((mark, block) => mark.replaceWith(block));
  marks.clear();
  stage.remove();
  stage = null;
  slides = [];
  document.body.classList.remove("presenting");
  delete document.documentElement.dataset.ready;
  history.replaceState(null, "", "#");
  here?.closest("details:not([open])")?.setAttribute("open", "");
  here?.scrollIntoView({ block: "center" });
}

/** Make all slides as large as fits, hidden fragments included; a column needs none of this. */
function layOut() {
  if (!stage || COLUMN.matches) return;
  for (const slide of slides) {
    reveal(slide, true);
    enlarge(slide);
    reveal(slide, false);
    slide.querySelectorAll(".live").forEach((widget) => growing.observe(widget));
  }
  scale();
}

/** Enlarge a slide's content: it keeps the layout of a page, and nothing may be cut off. */
function enlarge(slide) {
  const content = slide.lastElementChild;
  const wide = (part) => part.scrollWidth > part.clientWidth;
  let largest = 3.2;
  if (content.querySelector(":scope > :not(.said, .python)")) largest = 2.4;
  if (content.querySelector(".live, img")) largest = 1.74; // a widget lays itself out again in less width
  for (let zoom = largest; zoom > 0.6; zoom -= 0.02) {
    content.style.zoom = zoom;
    const parts = [content, ...content.querySelectorAll("pre, .words, .html")];
    if (content.scrollHeight <= content.clientHeight && !parts.some(wide)) return;
  }
}

function scale() {
  if (!stage) return;
  const { clientWidth } = document.documentElement;
  const factor = Math.min(clientWidth / WIDTH, innerHeight / HEIGHT);
  const [x, y] = [(clientWidth - WIDTH * factor) / 2, (innerHeight - HEIGHT * factor) / 2];
  $("main").style.transform = `translate(${x}px, ${y}px) scale(${factor})`;
}

/** Show all fragments on a slide, or none. */
function reveal(slide, seen) {
  for (const part of waiting(slide)) uncover(part, seen);
}

function uncover(part, seen) {
  part.classList.toggle("seen", seen);
  if (part.localName === "details") part.open = seen;
}

/** Show only this slide to eyes, keys and screen readers; in the overview, show all headings. */
function show(n, seen = false) {
  n = Math.max(0, Math.min(slides.length - 1, n));
  if (section(n) !== section(at)) entered = Date.now();
  at = n;
  const overview = stage.matches(".overview");
  slides.forEach((slide, i) => {
    slide.classList.toggle("current", i === at);
    slide.inert = i !== at && !overview;
    slide.lastElementChild.inert = overview;
  });
  reveal(slides[at], seen);
  stage.scrollTo(0, 0);
  if (overview) slides[at].scrollIntoView({ block: "center" });
  $("footer output").value = `${at + 1} / ${slides.length}`;
  $(".progress").style.width = `${(100 * (at + 1)) / slides.length}%`;
  history.replaceState(null, "", `#slide-${at + 1}`);
  slides[at].focus({ preventScroll: true });
  tell();
}

function next() {
  const hidden = waiting(slides[at]).find((part) => !part.matches(".seen, .overview *"));
  if (hidden) uncover(hidden, true);
  else if (at < slides.length - 1) show(at + 1);
}

function back() {
  const revealed = waiting(slides[at]).filter((part) => part.matches(".seen:not(.overview *)"));
  if (revealed.length) uncover(revealed.at(-1), false);
  else if (at > 0) show(at - 1, true);
}

function toggleOverview() {
  stage.classList.toggle("overview");
  show(at, true);
}

/** Turn by a button of the footer, or show the slide that was clicked in the overview. */
function choose({ target }) {
  const slide = target.closest(".overview > main > section");
  DOES[target.dataset.does]?.();
  if (!slide) return;
  stage.classList.remove("overview");
  show(slides.indexOf(slide));
}

/** Show the keys, and a field to go to a slide. */
function help() {
  const dialog = $("dialog");
  const field = $("dialog input");
  field.value = "";
  dialog.onclose = () => field.value && show(field.value - 1);
  dialog.showModal();
}

/** Note where a single finger begins, unless it may drag something. */
function press({ target, touches }) {
  const free = touches.length === 1 && !target.closest("input, dialog") && !drags(target);
  finger = free ? touches[0] : null;
}

/** Return whether a part of a widget scrolls sideways, or its style keeps such drags from the browser. */
function drags(node) {
  if (!node.closest(".live")) return false;
  const scrolls =
    node.scrollWidth > node.clientWidth && getComputedStyle(node).overflowX === "auto";
  return (
    scrolls || /^(none|pan-y)$/.test(getComputedStyle(node).touchAction) || drags(node.parentNode)
  );
}

/** Turn by a swipe, or by a tap near an edge where nothing else answers it. */
function lift({ target, changedTouches: [{ clientX, clientY }] }) {
  if (!finger || stage.matches(".overview")) return;
  const [x, y] = [clientX - finger.clientX, clientY - finger.clientY];
  const answers = target.closest(`${CONTROLS}, button, .live`);
  const tap = Math.hypot(x, y) < 10 && !answers ? clientX / innerWidth : 0.5;
  const swipe = Math.abs(x) > Math.max(40, 2 * Math.abs(y)) ? Math.sign(x) : 0;
  if (stage.matches(".black")) stage.classList.remove("black");
  else if (tap > 2 / 3 || swipe < 0) next();
  else if (tap < 1 / 3 || swipe > 0) back();
}

/** Return the number of a section's first slide. */
function section(n) {
  while (n > 0 && !talk[n].minutes) n -= 1;
  return n;
}

const minutesTo = (n) => talk.slice(0, n).reduce((all, { minutes }) => all + minutes, 0);

function openSpeaker() {
  view = window.open("", "speaker", "width=1280,height=760");
  if (!view) return;
  const page = view.document;
  const sheets = [...document.querySelectorAll("head style")];
  page.title = "Speaker";
  page.head.replaceChildren(...sheets.map((sheet) => sheet.cloneNode(true)));
  page.body.className = "speaker";
  page.body.innerHTML = SPEAKER;
  page.onkeydown = keys;
  page.body.dataset.shown = "";
  tell();
}

/** Copy a slide with all fragments visible, its canvases, and what its menus show. */
function pictureOf(slide) {
  const copy = slide.cloneNode(true);
  copy.inert = false;
  copy.classList.add("current");
  reveal(copy, true);
  const [menus, drawn] = ["select", "canvas"].map((each) => [...slide.querySelectorAll(each)]);
  copy.querySelectorAll("select").forEach((menu, i) => (menu.value = menus[i].value));
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    if (drawn[i].width && drawn[i].height) canvas.getContext("2d").drawImage(drawn[i], 0, 0);
  });
  return copy;
}

/** Show the speaker the time, the notes, this slide and the next. */
function tell() {
  if (!stage || !view || view.closed) return;
  const page = view.document;
  const write = (place, text) => (page.querySelector(place).textContent = text);
  const first = section(at);
  const clock = (since) => {
    const seconds = Math.floor((Date.now() - since) / 1000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };
  const { minutes, notes } = talk[first];
  const [before, total] = [minutesTo(first), minutesTo(talk.length)];
  const plan = `the plan for here: ${before} to ${before + minutes} of ${total} min`;
  write("b", clock(begun));
  write("span", `${plan} · this section: ${clock(entered)} of ${minutes} min`);
  write("time", new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  const theme = document.documentElement.dataset.jpThemeLight;
  page.documentElement.dataset.jpThemeLight = theme;
  if (page.body.dataset.shown === `${at} ${theme}`) return;
  page.body.dataset.shown = `${at} ${theme}`;
  const prose = [...article.querySelectorAll(`[data-notes="${at}"]`)];
  const texts = [notes, ...prose.map((block) => block.outerHTML)];
  page.querySelector("#notes").innerHTML = texts.join("<hr>");
  for (const [place, slide] of Object.entries({ "#now": slides[at], "#next": slides[at + 1] })) {
    write(`${place} p`, slide?.ariaLabel ?? "This is the last slide.");
    page.querySelector(`${place} main`).replaceChildren(slide ? pictureOf(slide) : "");
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
  Escape: toggleOverview,
  o: toggleOverview,
  Enter: () => stage.matches(".overview") && toggleOverview(),
  g: help,
  "?": help,
  b: () => stage.classList.add("black"),
  s: openSpeaker,
  d: () => changeColours(),
  f: () => (document.fullscreenElement ? document.exitFullscreen() : stage.requestFullscreen()),
  p: leave,
};

/** Return the name of a key pressed for the slides, not for a widget or the browser. */
function keyOf(event) {
  const { key, shiftKey } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return "";
  if (event.target.closest?.(`${CONTROLS}, .live`) && !key.startsWith("Page")) return "";
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
