// Search over all lessons, in the menu of lessons. The text lies in a script beside the pages, and is loaded once the
// menu opens.

const SOURCE = "search-text.js";
const MOST = 12; // sections that are listed
const BEFORE = 50; // letters of a section's text before the first word that was found
const LENGTH = 150;

const count = (text, word) => text.toLowerCase().split(word).length - 1;

/** Return the sections with all of these words, those with most of them in the heading first. */
function find(words) {
  const ranked = window.sections.map((section) => {
    const { lesson, heading, text } = section;
    const ranks = words.map(
      (word) => 20 * count(heading, word) + 10 * count(lesson, word) + Math.min(count(text, word), 9),
    );
    return { section, least: Math.min(...ranks), rank: ranks.reduce((all, each) => all + each) };
  });
  return ranked.filter(({ least }) => least).sort((a, b) => b.rank - a.rank);
}

/** Return the part of a text around the rarest of these words, with the word marked. */
function excerpt(text, words) {
  const small = text.toLowerCase();
  const [word] = words.filter((each) => small.includes(each)).sort((a, b) => count(small, a) - count(small, b));
  if (!word) return [text.slice(0, LENGTH)];
  const at = small.indexOf(word);
  const start = at < BEFORE ? 0 : text.indexOf(" ", at - BEFORE) + 1;
  const mark = document.createElement("mark");
  mark.textContent = text.slice(at, at + word.length);
  return [text.slice(start, at), mark, text.slice(at + word.length, start + LENGTH)];
}

function row({ address, lesson, heading, text }, words) {
  const link = Object.assign(document.createElement("a"), { href: address });
  const [place, part] = [document.createElement("b"), document.createElement("small")];
  place.textContent = lesson === heading ? lesson : `${lesson} › ${heading}`;
  part.append(...excerpt(text, words));
  link.append(place, part);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

/** Let the menu find what is typed into its field; / opens it from anywhere, Escape closes it. */
export function prepareSearch(menu) {
  const field = menu.querySelector("input");
  const [status, results, lessons] = ["output", ".results", ".all"].map((one) => menu.querySelector(one));
  const summary = menu.querySelector("summary");
  for (const part of menu.querySelectorAll("[hidden]")) part.hidden = false;

  function load() {
    if (!menu.open || window.sections) return;
    const script = Object.assign(document.createElement("script"), { src: SOURCE, onload: show });
    script.onerror = () => (status.value = `Search needs ${SOURCE} in the folder of this page.`);
    document.head.append(script);
  }
  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length && window.sections ? find(words) : [];
    results.replaceChildren(...found.slice(0, MOST).map(({ section }) => row(section, words)));
    lessons.hidden = words.length > 0;
    if (!window.sections) return;
    const sections = found.length === 1 ? "1 section" : `${found.length} sections`;
    status.value = words.length ? sections : "";
  }
  function close() {
    menu.open = false;
    summary.focus();
  }
  /** Go up or down through the field and the links below it. */
  function step(by) {
    const stops = [field, ...menu.querySelectorAll("ul:not([hidden]) a")];
    stops[stops.indexOf(document.activeElement) + by]?.focus();
  }
  const keys = { Escape: close, ArrowDown: () => step(1), ArrowUp: () => step(-1) };
  keys.Enter = () => document.activeElement === field && results.querySelector("a")?.click();

  menu.addEventListener("toggle", load);
  field.addEventListener("input", show);
  menu.addEventListener("keydown", (event) => {
    if (!menu.open || !keys[event.key]) return;
    if (event.key !== "Enter") event.preventDefault();
    keys[event.key]();
  });
  addEventListener("click", ({ target }) => {
    if (!menu.contains(target) || target.closest("a")) menu.open = false;
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea") || !menu.checkVisibility()) return;
    event.preventDefault();
    menu.open = true;
    field.focus();
  });
}
