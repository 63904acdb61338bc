// Ways to change a sentence without typing: another word of the same class, two nouns swapped, a new sentence.

import { make, makeButton } from "../dom.js";

/**
 * @typedef {object} SuggestionsSpec
 * @property {string[][]} classes Words that can replace each other.
 * @property {string[]} nouns Two of them may be swapped.
 * @property {[string, string]} verbs Each may become the other.
 * @property {string[]} sentences One of them is the surprise.
 */

export class Suggestions {
  label = make("span");
  menu = make("select");

  /** @param {SuggestionsSpec} spec `change` is called with a new sentence. */
  constructor(spec, change) {
    this.spec = spec;
    this.change = change;
    this.menu.dataset.lmSuppressShortcuts = true; // else JupyterLab takes its arrow keys
    this.menu.addEventListener("change", () => this.write({ [this.row]: this.menu.value }));
    this.swap = makeButton("chip", "", () => this.write(this.swapped));
    this.verb = makeButton("chip", "", () => this.write(this.turned));
    const surprise = makeButton("chip", "Surprise me", () => this.surprise());
    const words = make("label", "", this.label, this.menu);
    this.node = make("div", "suggestions", words, this.swap, this.verb, surprise);
  }

  /** Change words, which are given by their places. */
  write(changes) {
    this.change(this.words.map((word, i) => changes[i] ?? word).join(" "));
  }

  surprise() {
    const others = this.spec.sentences.filter((sentence) => sentence !== this.words.join(" "));
    this.change(others[Math.floor(Math.random() * others.length)]);
  }

  /** Return the words that can replace one, including itself. */
  classOf(word) {
    return this.spec.classes.find((group) => group.includes(word)) ?? [word];
  }

  /** Offer what fits these words, of which the one at `row` is followed. */
  show(words, row) {
    if (words === this.words && row === this.row) return; // the menu may be open
    Object.assign(this, { words, row });
    const { nouns, verbs } = this.spec;
    const group = this.classOf(words[row]);
    this.label.textContent = `Instead of “${words[row]}”`;
    this.menu.replaceChildren(...group.map((word) => new Option(word, word)));
    this.menu.value = words[row];
    this.menu.disabled = group.length < 2;

    const [first, ...rest] = [...words.keys()].filter((i) => nouns.includes(words[i]));
    const second = rest.find((i) => words[i] !== words[first]);
    this.swapped = { [first]: words[second], [second]: words[first] };
    this.swap.hidden = second === undefined;
    this.swap.textContent = `Swap ${words[first]} and ${words[second]}`;

    const place = words.findIndex((word) => verbs.includes(word));
    const other = verbs[1 - verbs.indexOf(words[place])];
    this.turned = { [place]: other };
    this.verb.hidden = place < 0;
    this.verb.textContent = `Change ${words[place]} to ${other}`;
  }
}
