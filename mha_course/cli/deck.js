"use strict";
const main = document.querySelector("main");
const slides = [...document.querySelectorAll("section")];
const root = document.documentElement;
const begun = Date.now();
let at = 0,
  entered = Date.now(),
  view = null;

const section = (n) => {
  while (n > 0 && !slides[n].dataset.minutes) n -= 1;
  return n;
};
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
      while (spills(content) && (size -= 0.025) >= 0.575);
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
  document.querySelector("output").value = `${at + 1} / ${slides.length}`;
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
  view = window.open("", "speaker", "width=960,height=680");
  if (!view) return;
  const page = view.document;
  page.title = "Speaker";
  page.body.innerHTML = `<style>body { font: 22px/1.5 system-ui, sans-serif; margin: 24px; color: #1b1f24 }
    #time { font-size: 30px; font-weight: 600 } #here { color: #0b57a4 } hr { border: 0; border-top: 1px solid #ccc }
    </style><p id="time"></p><p id="here"></p><div id="notes"></div><hr><p id="next"></p>`;
  page.onkeydown = keys;
  tell();
}

function tell() {
  if (!view || view.closed) return;
  const part = (id) => view.document.getElementById(id);
  const first = section(at);
  const minutes = (then) => (Date.now() - then) / 60000;
  const clock = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const left = Number(slides[first].dataset.minutes || 0) - minutes(entered);
  const soFar = Math.floor(minutes(begun));
  part("time").textContent = `${clock} · ${soFar} min so far · ${left.toFixed(1)} min left for this section`;
  part("here").textContent = slides[at].ariaLabel;
  const notes = [...new Set([first, at])].map((n) => slides[n].querySelector(".notes")?.innerHTML || "");
  if (part("notes").dataset.shown !== String(at)) part("notes").innerHTML = notes.join("<hr>");
  part("notes").dataset.shown = String(at);
  part("next").textContent = at + 1 < slides.length ? `Next: ${slides[at + 1].ariaLabel}` : "This is the last slide.";
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
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
  const inside = event.target.closest?.("a, summary, input, select, button");
  if (!does[key] || (inside && key === " ")) return;
  event.preventDefault();
  if (event.shiftKey && key === " ") back();
  else does[key]();
}

function click(event) {
  if (event.target.closest("a, summary, input, select, button")) return;
  if (root.classList.contains("overview")) {
    const chosen = slides.indexOf(event.target.closest("section"));
    if (chosen >= 0) {
      toggle("overview");
      show(chosen);
    }
  } else if (event.clientX > innerWidth * 0.85) next();
  else if (event.clientX < innerWidth * 0.15) back();
}

addEventListener("keydown", keys);
addEventListener("click", click);
addEventListener("resize", scale);
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
if (matchMedia("(prefers-color-scheme: dark)").matches) root.classList.add("dark");
scale();
show(Number(location.hash.slice(1)) - 1 || 0);
setInterval(tell, 1000);
addEventListener("load", async () => {
  await Promise.all([...document.images].map((image) => image.decode().catch(() => image.alt)));
  fit();
  root.dataset.ready = "yes";
});
