// Search over all lessons, in their menu. The text is in a script next to the pages, loaded when the menu first opens.

const SOURCE = "search-text.js"; // it sets window.sections, see search.py
const MOST = 12; // sections that are listed
const BEFORE = 50; // letters shown in front of the place where a word begins
const BEHIND = 100;

const contains = (text, words) => words.every((word) => text.toLowerCase().includes(word));

/** Return the sections that contain all of these words, those with them in the heading first. */
function find(words) {
  const all = ({ lesson, heading, text }) => `${lesson} ${heading} ${text}`;
  const matches = window.sections.filter((section) => contains(all(section), words));
  const named = matches.filter(({ lesson, heading }) => contains(`${lesson} ${heading}`, words));
  return [...new Set([...named, ...matches])];
}

/** Write a section as a link, with the text around the longest word. */
function row({ address, lesson, heading, text }, words) {
  const word = words.toSorted((a, b) => b.length - a.length).find((each) => contains(text, [each]));
  const at = word ? text.toLowerCase().indexOf(word) : 0;
  const item = document.createElement("li");
  item.innerHTML = "<a><b></b><small></small></a>";
  item.firstChild.href = address;
  item.querySelector("b").textContent = lesson === heading ? lesson : `${lesson} › ${heading}`;
  item.querySelector("small").textContent = text.slice(Math.max(0, at - BEFORE), at + BEHIND);
  return item;
}

/** Search for what is typed into the menu's field. The key / opens it, Escape closes it. */
export function prepareSearch(menu) {
  const [summary, field, status] = menu.querySelectorAll("summary, input, output");
  const [results, lessons] = menu.querySelectorAll("ul");
  for (const part of menu.querySelectorAll("[hidden]")) part.hidden = false;

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    lessons.hidden = words.length > 0;
    const matches = words.length && window.sections ? find(words) : [];
    results.replaceChildren(...matches.slice(0, MOST).map((section) => row(section, words)));
    status.value = words.length && window.sections ? `Sections: ${matches.length}` : "";
  }
  function load() {
    if (!menu.open || window.sections) return;
    const script = Object.assign(document.createElement("script"), { src: SOURCE, onload: show });
    script.onerror = () => (status.value = `Search needs ${SOURCE} in the folder of this page.`);
    document.head.append(script);
  }
  menu.addEventListener("toggle", load);
  field.addEventListener("input", show);
  menu.addEventListener("keydown", ({ key, target }) => {
    if (key === "Enter" && target === field) results.querySelector("a")?.click();
    if (key !== "Escape") return;
    menu.open = false;
    summary.focus();
  });
  addEventListener("click", ({ target }) => {
    if (!menu.contains(target) || target.closest("a")) menu.open = false;
  });
  addEventListener("keydown", (event) => {
    const isTyped = event.target.closest?.("input, textarea, select");
    if (event.key !== "/" || isTyped || !menu.checkVisibility()) return;
    event.preventDefault();
    menu.open = true;
    field.focus();
  });
}
