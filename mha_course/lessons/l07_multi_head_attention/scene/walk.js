// Where the walk through the stages is, and how it goes on by itself. A position is a number: 0 is the overview, and a
// stage with number n is done at n + 1; between whole numbers it is in motion.

import { clamp, make, setText } from "../../../widgets/dom.js";
import { still } from "../../../widgets/player.js";
import { STAGES, stageAt } from "./stages.js";

const LAST = STAGES.length;
const PAUSE = 1800; // milliseconds between two stages while it plays
const READING = 5000; // the same where nothing moves
const STEP = 0.05; // of the scrubber, as a pointer moves it

export class Walk {
  fraction = 1;
  goal = null; // the position to which it goes by itself
  timer = null;
  frame = null;

  /** `show()` draws what `position` says; the model's stage goes along. */
  constructor(model, put, show) {
    Object.assign(this, { model, put, show, stage: model.get("stage") });
    const range = { type: "range", className: "scrub", min: 0, max: LAST };
    this.scrub = make("input", { ...range, step: still() ? 1 : STEP });
    this.scrub.ariaLabel = "Position in the pass";
    this.count = make("span", "count");
    this.scrub.addEventListener("input", () => this.jump(Number(this.scrub.value)));
  }

  /** Let an arrow key on the scrubber go from stage to stage, and say whether it was one; a pointer stops between two. */
  press(key) {
    const isOn = ["ArrowRight", "ArrowUp"].includes(key);
    if (isOn) this.jump(Math.floor(this.position) + 1);
    else if (["ArrowLeft", "ArrowDown"].includes(key)) this.back();
    else return false;
    return true;
  }

  get position() {
    return this.stage < 0 ? 0 : this.stage + this.fraction;
  }

  /** Take the stage that was set elsewhere. */
  follow() {
    const stage = clamp(this.model.get("stage"), -1, LAST - 1);
    if (stage === this.stage) return;
    this.stop();
    Object.assign(this, { stage, fraction: 1 });
  }

  seek(position) {
    const at = clamp(position, 0, LAST);
    this.stage = Math.ceil(at) - 1;
    this.fraction = this.stage < 0 ? 1 : at - this.stage;
    if (this.model.get("stage") !== this.stage) this.put({ stage: this.stage });
    this.show();
  }

  /** Go back to where the stage began, or to where the one before did. */
  back() {
    this.jump(Math.ceil(this.position) - 1);
  }

  /** Go on to the end of the next stage; while it plays it goes on from there. */
  next() {
    const done = this.stage + 1;
    if (done === LAST) return this.seek(LAST);
    this.seek(done);
    this.run(Math.max(this.playing ? this.goal : 0, done + 1));
  }

  get playing() {
    return this.goal === LAST;
  }

  toggle() {
    if (this.playing) return this.jump(this.position);
    if (this.position === LAST) this.seek(0);
    this.run(LAST);
  }

  run(goal) {
    this.stop();
    this.goal = goal;
    if (still()) this.step(Math.floor(this.position) + 1);
    else this.fly();
    this.show();
  }

  /** Move on with every frame, to the end of a stage. */
  fly() {
    const end = Math.floor(this.position) + 1;
    const { seconds } = stageAt(end - 1);
    let before = null;
    const tick = (now) => {
      const passed = before === null ? 0 : Math.min(now - before, 100);
      before = now;
      const to = this.position + passed / 1000 / seconds;
      if (to >= end) return this.step(end, PAUSE);
      this.frame = requestAnimationFrame(tick);
      this.seek(to);
    };
    this.frame = requestAnimationFrame(tick);
  }

  /** Show a stage that is done, and go on after a while. */
  step(end, pause = READING) {
    const more = end < this.goal;
    if (!more) this.stop();
    this.seek(end);
    if (more) this.timer = setTimeout(() => this.run(this.goal), pause);
  }

  stop() {
    this.goal = null;
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  /** Stop, and show a position. */
  jump(position) {
    this.stop();
    this.seek(position);
  }

  /** Write where it is. */
  write() {
    const { name } = stageAt(this.stage);
    if (Math.abs(this.scrub.value - this.position) >= STEP / 2) this.scrub.value = this.position;
    this.scrub.setAttribute("aria-valuetext", name);
    setText(this.count, this.stage < 0 ? "Overview" : `${this.stage + 1} of ${LAST} · ${name}`);
  }
}
