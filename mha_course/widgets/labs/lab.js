// A lab: controls, panels, and a sentence. What is moved goes to the kernel, which answers with what to draw.

import { make, svg } from "../dom.js";
import { CONTROLS } from "./controls.js";
import { GAP, KINDS, pack } from "./panels.js";

const PATIENCE = 3000; // milliseconds until a kernel that says nothing is said not to answer
const SPOKEN = 500; // and until what changed is read aloud, so that a drag is not

function render({ model, el }) {
  const { kind, question, hint, controls: faces, start, palettes } = model.get("face");
  const asker = Math.random().toString(36).slice(2);
  const hatch = `hatch-${asker}`;
  let [local, waiting, flight, number, room, drawn] = [{ ...model.get("view").values }, null, null, 0, 0, []];
  let [speaking, frame, tall] = [null, null, 0];

  const root = make("section", "mha-lab");
  root.setAttribute("aria-label", kind);
  const again = Object.assign(make("button", "again", "Start again"), { type: "button" });
  again.addEventListener("click", () => Object.entries(start).forEach(([name, value]) => move(name, value)));
  const [said, trouble] = [make("p", "sentence"), make("p", "trouble")];
  const groups = Object.fromEntries(["big", "small", "tiny"].map((size) => [size, make("div", `group ${size}`)]));
  const boards = make("div", "boards", ...Object.values(groups));
  const [readout, aloud] = [make("p", "readout"), make("p", "aloud")];
  aloud.setAttribute("aria-live", "polite");
  trouble.setAttribute("role", "status");
  const built = Object.fromEntries(
    faces.filter((face) => CONTROLS[face.kind]).map((face) => [face.name, CONTROLS[face.kind](face, move, asker)]),
  );
  const bar = make("div", "controls", ...Object.values(built).map(({ node }) => node), again);
  const patterns = ["dim", "bright"].map((name) => {
    const strokes = svg("path", { d: "M-1 1L1 -1M0 6L6 0M5 7L7 5", class: `hatch ${name}` });
    return svg("pattern", { id: `${hatch}-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, strokes);
  });
  const shared = svg("svg", { width: 0, height: 0, class: "shared", "aria-hidden": "true" }, svg("defs", {}, ...patterns));
  root.append(make("p", "question", question), bar, said, trouble, boards, readout);
  if (hint) root.append(make("p", "hint", hint));
  root.append(aloud, shared);
  el.append(root);

  /** Read something aloud once nothing has moved for a moment. */
  function speak(words) {
    clearTimeout(speaking);
    speaking = setTimeout(() => (aloud.textContent = words), SPOKEN);
  }

  function move(name, value) {
    local[name] = value;
    built[name]?.show(value);
    waiting = { ...waiting, [name]: value };
    ask();
  }

  /** Ask what has been moved since the last answer; one question at a time is on its way. */
  function ask() {
    if (flight || !waiting) return;
    const timer = setTimeout(() => {
      flight = null; // whatever moves next is asked anew
      tell("⚠ The kernel does not answer. Is it busy, or was it stopped? Run the cell again.");
    }, PATIENCE);
    flight = { number: ++number, timer };
    model.set("request", { asker, number, moved: waiting });
    waiting = null;
    model.save_changes();
  }

  const idle = () => !flight && !waiting;
  const tell = (words) => {
    trouble.textContent = words;
    trouble.hidden = !words;
  };
  const read = (words, spoken) => {
    readout.textContent = words || "\u00a0";
    if (spoken) speak(words);
  };
  const tools = { move, idle, read, palettes, hatch, value: (name) => local[name] };

  /** Return what a panel must be built anew for; all else is an update. */
  const form = ({ kind, names, rows, columns, size, drag }, width) =>
    JSON.stringify([kind, names, kind === "matrix" && rows, columns, size, drag, width]);

  const headed = ({ title, drag, paint }) => `${title}${drag ? ": drag them" : paint ? ": paint it" : ""}`;

  function draw(view) {
    const sized = (size) => view.panels.filter((panel) => (panel.size ?? "big") === size);
    const [big, small, tiny] = ["big", "small", "tiny"].map(sized);
    const widths = new Map(pack(big, room).map((width, i) => [big[i], width]));
    const four = Math.floor((room - GAP * (room > 640 ? 3 : 1)) / (room > 640 ? 4 : 2));
    for (const panel of small) widths.set(panel, Math.min(four, 230));
    const tight = Math.floor(room / tiny.length) - GAP;
    for (const panel of tiny) widths.set(panel, Math.max(78, Math.min(122, tight)));
    for (const [size, all] of Object.entries({ small, tiny })) groups[size].dataset.title = all[0]?.group ?? "";
    drawn.splice(view.panels.length).forEach(({ box }) => box.remove());
    view.panels.forEach((panel, i) => {
      const [width, old] = [widths.get(panel), drawn[i]];
      const key = form(panel, width);
      if (old?.key === key) {
        old.made.update(panel);
        old.title.textContent = headed(panel);
        old.note.textContent = panel.note;
        return;
      }
      const made = KINDS[panel.kind](panel, { ...tools, width });
      const [title, note] = [make("figcaption", "title", headed(panel)), make("p", "note", panel.note)];
      if (panel.size === "tiny") title.style.setProperty("--head", palettes.heads[panel.head % palettes.heads.length]);
      const legend = panel.on ? [make("p", "note", make("i", "yes"), ` ${panel.on} `, make("i", "no"), ` ${panel.off}`)] : [];
      const box = make("figure", `panel ${panel.kind} ${panel.size ?? "big"}`, title, made.node, ...legend, note);
      // A big matrix takes what its cells need, which may be less than it could have.
      box.style.width = `${panel.size === "big" ? Math.min(width, made.node.getAttribute("width")) : width}px`;
      if (old) old.box.replaceWith(box);
      else groups[panel.size ?? "big"].append(box);
      drawn[i] = { key, made, box, title, note };
    });
  }

  function follow() {
    const view = model.get("view");
    if (flight && view.asker === asker && view.number === flight.number) {
      clearTimeout(flight.timer);
      flight = null;
    }
    if (idle()) {
      local = { ...view.values };
      for (const [name, control] of Object.entries(built)) control.show(local[name]);
    }
    if (room) draw(view);
    if (said.textContent !== view.text) speak(view.text);
    said.textContent = view.text;
    tell(view.trouble);
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => (root.dataset.serial = view.serial)); // drawn, and on the screen with this frame
    ask();
  }

  // Else JupyterLab takes a key for a command; Tab, Escape and what has a modifier stay its own.
  root.addEventListener("keydown", (event) => {
    const theirs = event.ctrlKey || event.metaKey || event.altKey || ["Tab", "Escape"].includes(event.key);
    if (!theirs && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
  });
  const watch = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (!width || width === room) return;
    room = width;
    said.style.minHeight = "";
    tall = 0;
    draw(model.get("view"));
  });
  // A sentence that has been as high stays so: nothing moves away under the pointer.
  const keep = new ResizeObserver(() => {
    if (said.offsetHeight > tall) said.style.minHeight = `${(tall = said.offsetHeight)}px`;
  });
  model.on("change:view", follow);
  read("", false);
  follow();
  watch.observe(boards);
  keep.observe(said);
  return () => {
    watch.disconnect();
    keep.disconnect();
    clearTimeout(speaking);
    clearTimeout(flight?.timer);
    cancelAnimationFrame(frame);
    model.off("change:view", follow);
    root.remove();
  };
}

export default { render };
