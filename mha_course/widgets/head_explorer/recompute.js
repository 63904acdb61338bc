// The controls of the learner's function, and the line in which its errors stand.

import { GONE, makeControls, makeQueue } from "../controls.js";
import { make, say } from "../dom.js";

/** Make all controls; `visible()` is the mask that is seen, a string of 0 and 1 for each row, 1 = may attend. */
export function makeRecompute(model, visible) {
  const { controls: specs } = model.get("options");
  const scope = Math.random().toString(36).slice(2);
  let { painted } = model.get("request");
  const [line, whose] = [make("p", "trouble"), make("p", "whose")];
  line.setAttribute("role", "status");
  const tell = (text) => {
    say(line, text);
    line.classList.toggle("bad", Boolean(text));
  };
  function send(question) {
    const serial = model.get("request").serial + 1;
    model.set("request", { ...question, serial });
    model.save_changes();
    return serial;
  }
  const queue = makeQueue(send, () => tell(GONE));
  const masks = specs.find(({ name }) => name === "mask")?.words;
  const painting = () => Boolean(masks) && masks[controls.get("mask").read()] === "painted";
  function ask() {
    const values = Object.fromEntries([...controls].map(([name, control]) => [name, control.read()]));
    queue.ask({ values, painted: painting() ? painted : null });
  }
  function moved(name) {
    if (name === "mask") painted = visible(); // painting begins with the mask that is there
    ask();
  }
  const controls = makeControls(specs, moved, scope);
  const bar = make("div", "controls", ...[...controls.values()].map(({ node }) => node));
  const node = make("div", "recompute", bar, whose, line);
  node.hidden = !controls.size;

  function follow() {
    // another view of the same explorer, or an earlier one
    const { values } = model.get("request");
    for (const [name, control] of controls) if (values[name] !== undefined) control.show(values[name]);
  }
  function landed(serial, text) {
    if (serial === model.get("request").serial) tell(text); // an older answer says nothing of what is asked now
    queue.landed(serial);
    queue.pump();
  }
  const troubleCame = () => landed(model.get("trouble").serial, model.get("trouble").text);
  const showWhose = () => say(whose, model.get("packet").whose);
  showWhose();
  if (model.get("trouble").serial === model.get("request").serial) tell(model.get("trouble").text);
  model.on("change:trouble", troubleCame);
  model.on("change:request", follow);
  follow();
  return {
    node,
    painting,
    answered(serial) {
      showWhose();
      landed(serial, "");
    },
    /** Ask with a mask that the learner painted. */
    paint(rows) {
      painted = rows;
      ask();
    },
    stop() {
      queue.stop();
      model.off("change:trouble", troubleCame);
      model.off("change:request", follow);
    },
  };
}
