// What the explorer and the scene share: following a model, at most one drawing per frame, and cleaning up.

import { catchKeys, followModel, make, makeSpeaker, setText } from "./dom.js";
import { followTheme } from "./matrix.js";
import { connect, SETTLED } from "./protocol.js";

/** Keep the height that a picture once had at this width, so that nothing below it jumps. */
function keepHeight(root, width) {
  if (Math.abs(width - root.dataset.width) >= 1) root.style.minHeight = "";
  root.dataset.width = width;
  if (!root.querySelector("details[open]")) root.style.minHeight = getComputedStyle(root).height;
}

/** A subclass makes `root`, and then calls `start`; it has `draw`, `stateCame(state)` and, for keys, `answer`. */
export class Stage {
  due = null;
  saving = null;
  speaker = makeSpeaker();
  source = make("p", "source"); // whose numbers they are
  trouble = make("p", "trouble");

  constructor(model) {
    this.model = model;
    this.trouble.setAttribute("role", "status");
    this.kernel = connect(
      model,
      (state) => {
        setText(this.source, state.source);
        this.stateCame(state);
      },
      (text) => {
        setText(this.trouble, text);
        const bad = Boolean(text) && !text.includes("returns nothing yet"); // which is not an error
        this.trouble.classList.toggle("bad", bad);
        this.root?.querySelector("input[type=text]")?.setAttribute("aria-invalid", bad);
      },
    );
  }

  /** Enter the page. Draw the state, and again whenever the width or one of these traits changes. */
  start(el, traits) {
    el.append(this.root);
    const soon = () => this.soon();
    const size = new ResizeObserver(([entry]) => {
      keepHeight(this.root, entry.borderBoxSize[0].inlineSize);
      soon();
    });
    size.observe(this.root);
    this.stops = [
      catchKeys(this.root, (event, target) => this.answer(event, target)),
      followModel(this.model, traits, soon),
      followTheme(soon),
      () => size.disconnect(),
      this.kernel.stop,
      this.speaker.stop,
    ];
    this.kernel.follow();
  }

  put(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.model.save_changes(), SETTLED);
  }

  /** Follow the same word in a new sentence, wherever it is now, or else one of those that are alike. */
  keepWord(before, now, alike = []) {
    const row = this.model.get("row");
    const word = before[row];
    if (now[row] === word) return;
    const distance = (i) => Math.abs(i - row);
    const find = (words) => {
      const places = [...now.keys()].filter((i) => words.includes(now[i]));
      return places.sort((a, b) => distance(a) - distance(b))[0];
    };
    const nearest = find([word]) ?? find(alike);
    if (nearest !== undefined) this.put({ row: nearest });
  }

  /** Draw with the next frame, once all changes of this moment are made. */
  soon() {
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      if (this.root.isConnected) this.draw();
    });
  }

  remove() {
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.due);
    clearTimeout(this.saving);
    this.root.remove();
  }
}
