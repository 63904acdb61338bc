// Text below a step's tensors: warnings, and in a fold its memory.

import { make } from "../dom.js";

const STORAGE = {
  view: ["view: same memory", "a view of the same memory"],
  copy: ["copy: same numbers, new memory", "a copy"],
  same: ["same object: nothing moved", "the same object"],
  new: ["new: computed here", "new"],
};

export const storageWords = (storage) => STORAGE[storage][1];

export function bytesOf(number) {
  if (number < 1000) return `${number} byte${number === 1 ? "" : "s"}`;
  const power = Math.min(4, Math.floor(Math.log10(number) / 3));
  return `${(number / 1000 ** power).toFixed(1)} ${["KB", "MB", "GB", "TB"][power - 1]}`;
}

export const makeMark = (kind) => make("span", `mark ${kind}`);
export const quiet = (text) => make("span", "quiet", text);

/** Cut a warning, "id: what happened", in two; without an id all of it is the text. */
export function cutWarning(whole) {
  const [, id, text] = /^([\w-]+(?: \([\w-]+\))?): ([^]*)$/.exec(whole) ?? ["", "", "", ""];
  const words = text || whole;
  return { id, text: words.charAt(0).toUpperCase() + words.slice(1) };
}

export function warningBox(title, whole) {
  const { id, text } = cutWarning(whole);
  const heading = make("p", "", makeMark("warns"), make("b", "", title), " ", quiet(id));
  return make("div", "warning", heading, make("p", "", text));
}

function sizeRow({ storage, strides, contiguous, bytes, kind, flops }) {
  const written = `(${strides.join(", ")}${strides.length === 1 ? "," : ""})`;
  const badge = `${STORAGE[storage][0]}${storage === "view" ? `, strides ${written}` : ""}`;
  const facts = [contiguous ? "contiguous" : "not contiguous", bytesOf(bytes), kind];
  if (flops) facts.push(`${flops.toLocaleString("en")} FLOPs (multiply-add = 2)`);
  const words = facts.map((text) => make("span", "", text));
  return make("div", "row", make("b", `badge ${storage}`, badge), ...words);
}

function hiddenCopies(count, storage) {
  const copies = count === 1 ? "1 hidden copy" : `${count} hidden copies`;
  const why =
    storage === "copy" ? "no view can have this shape." : "numbers were laid out again on the way.";
  return make("p", "", makeMark("hides"), ` ${copies}: ${why}`);
}

/** Return what a step is in memory, and what it costs. */
export function memoryOf(step) {
  const copies = step.hidden_copies ? [hiddenCopies(step.hidden_copies, step.storage)] : [];
  return [sizeRow(step), ...copies];
}

/** Return all that is to be said of a step; `failure` is what stopped after it. */
export function factsOf(step, failure) {
  const rows = [];
  if (step.note) rows.push(make("p", "", step.note));
  if (step.warning) rows.push(warningBox("Warning", step.warning));
  if (step.question) rows.push(warningBox("Unusual", step.question));
  if (failure) rows.push(warningBox("Stopped after this step", failure));
  return rows;
}
