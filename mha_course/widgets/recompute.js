// Asks the kernel to call the learner's function (RecomputingWidget in base.py), and says whose numbers came back, or
// what went wrong.

import { GONE, makeAsker } from "./controls.js";
import { followModel, make, say } from "./dom.js";

export function makeRecompute(model) {
  const [whose, trouble] = [make("p", "whose"), make("p", "trouble")];
  trouble.setAttribute("role", "status");
  const tell = (text) => {
    say(trouble, text);
    trouble.classList.toggle("bad", Boolean(text) && !text.includes("returns nothing yet")); // not begun is no fault
  };
  const queue = makeAsker(model, "request", () => tell(GONE), "serial");
  function answered({ serial, text = "" }) {
    say(whose, model.get("packet").whose);
    if (serial === model.get("request").serial) tell(text); // an older answer says nothing of what is asked now
    queue.landed(serial);
    queue.pump();
  }
  const unfollow = followModel(model, {
    packet: () => answered(model.get("packet")),
    trouble: () => answered(model.get("trouble")),
  });
  answered(model.get("trouble"));
  function stop() {
    queue.stop();
    unfollow();
  }
  return { whose, trouble, ask: queue.ask, stop };
}
