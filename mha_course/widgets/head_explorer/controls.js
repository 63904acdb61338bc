// Controls for the parameters of the learner's function. One question is under way at a time; the latest value wins.

const PATIENCE = 3000; // milliseconds until it is said that no answer came

/** Send questions to the kernel one after the other, and say what comes of them. */
function makeQueue(model, say) {
  let [flying, waiting, timer] = [null, null, null];
  const serialOf = () => model.get("request").serial ?? 0;
  function pump() {
    if (!waiting || flying !== null) return;
    flying = serialOf() + 1;
    performance.mark("mha-heads-asked");
    model.set("request", { ...waiting, serial: flying });
    model.save_changes();
    waiting = null;
    timer = setTimeout(() => {
      flying = null; // the next move may try again
      say("The kernel has not answered for 3 seconds: it is busy, or no longer there.");
    }, PATIENCE);
  }
  return {
    ask(values) {
      waiting = values;
      pump();
    },
    /** Note an answer; that to an older question does not count. */
    landed(serial, text) {
      if (serial !== serialOf()) return;
      clearTimeout(timer);
      flying = null;
      say(text);
      pump();
    },
    stop: () => clearTimeout(timer),
  };
}

/** Make one control: its node, and how to read and to set it. */
function makeControl(control, changed) {
  const { name, kind, start, low, high } = control, log = kind === "log";
  const input = make(kind === "mask" ? "select" : "input"), label = make("label", `control ${kind}`, make("span", "", name), input);
  if (kind === "mask") input.append(...control.choices.map((choice) => new Option(choice, choice)));
  if (kind === "sentence") Object.assign(input, { type: "text", spellcheck: false, autocomplete: "off" });
  if (kind === "check") input.type = "checkbox";
  const range = ["log", "linear", "whole"].includes(kind), shown = make("output");
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const step = kind === "whole" ? 1 : (to - from) / 200;
  if (range) {
    Object.assign(input, { type: "range", min: from, max: to, step });
    label.append(shown);
  }
  const read = () => {
    if (kind === "check") return input.checked;
    if (!range) return input.value;
    const value = log ? 10 ** Number(input.value) : Number(input.value);
    return Math.abs(value - start) < Math.abs(start) * 0.008 ? start : value; // the start is not lost between two steps
  };
  const show = () => {
    const value = range ? read() : 0, digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 0.1 || !value ? 2 : 4;
    if (!range) return;
    say(shown, kind === "whole" ? `${value}` : value.toFixed(digits));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  const write = (value) => {
    if (kind === "check") input.checked = value;
    else if (input !== document.activeElement || kind !== "sentence") input.value = log ? Math.log10(value) : value;
    show();
  };
  write(start);
  const tell = () => {
    show();
    changed(name);
  };
  input.addEventListener(kind === "mask" ? "change" : "input", tell);
  if (range) {
    label.title = "Double-click: back to the start";
    input.addEventListener("dblclick", () => {
      write(start);
      tell();
    });
  }
  return { label, read, write };
}

/** Make all controls, and the line in which the function's errors stand. */
function makeAsking(model, visible) {
  const controls = model.get("options").controls, made = new Map();
  const line = make("p", "trouble"), node = make("div", "asking", make("div", "controls"), line);
  line.setAttribute("role", "status");
  let painted = model.get("request").painted ?? null;
  const queue = makeQueue(model, (text) => {
    say(line, text);
    line.classList.toggle("bad", Boolean(text));
  });
  const values = () => Object.fromEntries([...made].map(([name, one]) => [name, one.read()]));
  const ask = () => queue.ask({ ...values(), painted: values().mask === "painted" ? painted : null });
  const changed = (name) => {
    if (name === "mask") painted = write(visible());
    ask();
  };
  function write({ rows, columns, seen }) {
    const bits = new Uint8Array(Math.ceil(seen.length / 8));
    seen.forEach((one, i) => { bits[i >> 3] |= one << (7 - (i & 7)); });
    let text = "";
    for (const byte of bits) text += String.fromCharCode(byte);
    return { rows, columns, bits: btoa(text) };
  }
  for (const control of controls) {
    const one = makeControl(control, changed);
    made.set(control.name, one);
    node.firstChild.append(one.label);
  }
  node.hidden = !controls.length;
  const packetCame = (serial) => queue.landed(serial, "");
  const troubleCame = () => queue.landed(model.get("trouble").serial, model.get("trouble").text);
  const follow = () => { // another view of the same picture, or an earlier one
    const asked = model.get("request");
    for (const [name, one] of made) if (asked[name] !== undefined) one.write(asked[name]);
  };
  model.on("change:trouble", troubleCame);
  model.on("change:request", follow);
  follow();
  return {
    node, packetCame,
    painting: () => made.get("mask")?.read() === "painted",
    /** Ask with a mask of the learner's own. */
    paint(mask) {
      painted = write(mask);
      ask();
    },
    stop() {
      queue.stop();
      model.off("change:trouble", troubleCame);
      model.off("change:request", follow);
    },
  };
}
