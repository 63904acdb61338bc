import { enliven } from "./live.js";

const main = document.querySelector("main");
const slides = [...document.querySelectorAll("main > section")];
const CONTROLS = "a, summary, input, select, button, .live";
const root = document.documentElement;
const begun = Date.now();
const LEAST = 0.76; // of the size of letters: the smallest are then 20 pixels
let at = 0,
  entered = Date.now(),
  view = null;

const section = (n) => {
  while (n > 0 && !slides[n].dataset.minutes) n -= 1;
  return n;
};
const planned = slides.map((slide) => Number(slide.dataset.minutes || 0));
const minutesTo = (n) => planned.slice(0, n).reduce((all, some) => all + some, 0);
const fragments = (n) => [...slides[n].querySelectorAll(".fragment")];

function spills(content) {
  const over = (part) => part.scrollWidth > part.clientWidth;
  const columns = Number(content.parentElement.style.getPropertyValue("--columns"));
  const wide = (table) => columns > 1 && table.offsetWidth > table.closest(".html").clientWidth / columns - 40;
  return (
    content.scrollHeight > content.clientHeight ||
    over(content) ||
    [...content.querySelectorAll("pre, .words, .html")].some(over) ||
    [...content.querySelectorAll(".html table")].some(wide)
  );
}

function fit() {
  for (const slide of slides) {
    const content = slide.querySelector(".content");
    const most = slide.matches(".picture, .title") ? 1 : 1.25;
    for (const columns of slide.querySelector(".html") ? [1, 2, 3] : [1]) {
      slide.style.setProperty("--columns", columns);
      slide.classList.toggle("columns", columns > 1);
      let size = most;
      do slide.style.setProperty("--fit", size.toFixed(3));
      while (spills(content) && (size -= 0.025) >= LEAST);
      if (!spills(content)) break;
    }
  }
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

function toggle(name) {
  root.classList.toggle(name);
  if (name !== "overview") return;
  const on = root.classList.contains(name);
  slides.forEach((slide, i) => (slide.inert = !on && i !== at));
  slides[at].scrollIntoView({ block: "center" });
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
  const plan = `the plan for here: ${from} to ${from + planned[first]} of ${whole} min`;
  part("#time b").textContent = span(begun);
  part("#time span").textContent = `${plan} · this section: ${span(entered)} of ${planned[first]} min`;
  part("time").textContent = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const shown = `${at} ${page.documentElement.className}`;
  if (page.body.dataset.shown === shown) return;
  page.body.dataset.shown = shown;
  part("#notes > h2").textContent = slides[at].ariaLabel;
  const notes = [...new Set([first, at])].map((n) => slides[n].querySelector("aside.notes")?.innerHTML || "");
  part("#notes > div").innerHTML = notes.join("<hr>");
  const following = slides[at + 1];
  part("#next > p").textContent = following ? `Next: ${following.ariaLabel}` : "This is the last slide.";
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
    b: () => toggle("black"),
    d: () => toggle("dark"),
    o: () => toggle("overview"),
    Escape: () => toggle("overview"),
    f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()),
  };
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const inside = event.target.closest?.(CONTROLS);
  if (!does[key] || (inside && !key.startsWith("Page"))) return;
  event.preventDefault();
  if (event.shiftKey && key === " ") back();
  else does[key]();
}

function click(event) {
  if (event.target.closest(CONTROLS)) return;
  if (root.classList.contains("overview")) {
    const chosen = slides.indexOf(event.target.closest("main > section"));
    if (chosen >= 0) {
      toggle("overview");
      show(chosen);
    }
  } else if (event.clientX > innerWidth * 0.85) next();
  else if (event.clientX < innerWidth * 0.15) back();
}

addEventListener("keydown", keys);
addEventListener("keydown", (event) => event.key.startsWith("Page") && keys(event), true); // a widget has them not
addEventListener("click", click);
addEventListener("resize", scale);
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
if (matchMedia("(prefers-color-scheme: dark)").matches) root.classList.add("dark");
scale();
show(Number(location.hash.slice(1)) - 1 || 0);
setInterval(tell, 1000);
addEventListener("load", async () => {
  enliven(document.querySelectorAll(".live"));
  await Promise.all([...document.images].map((image) => image.decode().catch(() => image.alt)));
  fit();
  root.dataset.ready = "yes";
});
