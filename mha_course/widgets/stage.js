// What the explorer and the scene share: a model that is followed, at most one drawing a frame, and an end.

import { catchKeys, followModel, makeSpeaker } from "./dom.js";
import { makeRecompute } from "./recompute.js";

const SETTLED = 150; // milliseconds until the kernel hears what was chosen: it need not follow every step

/** A subclass makes `root`, and then calls `start`; it has `draw` and, for keys, `answer`. */
export class Stage {
  constructor(model) {
    Object.assign(this, { model, due: null, saving: null });
    this.recompute = makeRecompute(model);
    this.speaker = makeSpeaker();
  }

  /** Enter the page. Draw whenever the width or one of these traits changes; `calls` are for others. */
  start(el, traits, calls) {
    el.append(this.root);
    const soon = () => this.soon();
    const size = new ResizeObserver(soon);
    size.observe(this.root);
    this.stops = [
      catchKeys(this.root, (event, target) => this.answer(event, target)),
      followModel(this.model, {
        ...Object.fromEntries(traits.map((name) => [name, soon])),
        ...calls,
      }),
      () => size.disconnect(),
      this.recompute.stop,
      this.speaker.stop,
    ];
  }

  put(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.model.save_changes(), SETTLED);
  }

  /** Draw with the next frame, when all changes of this moment are there. */
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
