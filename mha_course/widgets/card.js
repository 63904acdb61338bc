// A card: a report or a question, choices, a field or buttons below it, and their results. Choices are marked here,
// so that this works without a kernel; the kernel answers everything else.

import { keepKeys, make, makeButton, makeSpeaker, setText } from "./dom.js";
import { inView } from "./in_view.js";
import { connect } from "./protocol.js";

/**
 * @typedef {object} CardOptions All texts are HTML that the course wrote.
 * @property {string} html
 * @property {{ text: string, right: boolean, reason: string }[]} [choices]
 * @property {boolean} [sends] Whether the kernel is told which choice was made.
 * @property {boolean} [field] Whether there is a field to type an answer in.
 * @property {string} [details] What comes below everything else.
 *
 * @typedef {object} CardState
 * @property {{ action: string, label: string, done: boolean }[]} buttons
 * @property {string[]} [parts] The buttons' results.
 * @property {boolean | null} [right] Whether the typed answer is right; null if it cannot be read.
 * @property {string} [reason]
 *
 * @typedef {{ action: string, text: string }} CardEvent
 */

/** Make an element of HTML that the course wrote; what people wrote is escaped in it. */
function fromHTML(name, html = "") {
  const node = make("div", name);
  node.innerHTML = html;
  return node;
}

/** Make a choice, with room for the sign that marks it. */
function makeChoice({ text, right, reason }, mark) {
  const choice = makeButton("choice", "", () => mark(choice, right, reason));
  choice.append(make("span", "sign"), make("span", "", text));
  return choice;
}

/** Make a field to type an answer in. */
function makeField(send) {
  const attributes = { type: "text", autocomplete: "off", spellcheck: false, maxLength: 120 };
  const input = make("input", attributes);
  const button = make("button", { type: "submit" }, "Answer");
  const label = make("label", "", make("span", "", "Your answer"), input);
  const field = make("form", "field", label, button, make("span", "sign"));
  field.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) send("answer", input.value);
  });
  input.addEventListener("input", () => delete field.dataset.right); // the mark was for the old text
  return field;
}

/** Make a row of buttons that changes with what has been asked, and keeps the focus where it is. */
function makeBar(send) {
  const bar = make("div", "bar");
  const buttons = new Map();
  function add(action) {
    const button = makeButton("", "", () => button.ariaDisabled === "true" || send(action, ""));
    buttons.set(action, button);
    bar.append(button);
  }
  function show(specs) {
    for (const { action, label, done } of specs) {
      if (!buttons.has(action)) add(action);
      setText(buttons.get(action), label);
      buttons.get(action).ariaDisabled = done;
    }
  }
  return { bar, show };
}

/** Let a link to another lesson open it in JupyterLab itself, where its address would load all of JupyterLab again. */
function openInLab(link) {
  const [, folder] = /^.*?\/lab\/.*?tree\/(.*\/)?[^/]*$/.exec(decodeURI(location.pathname)) ?? [];
  const [file] = link.getAttribute("href").split("#");
  if (!location.pathname.includes("/lab/")) return;
  link.dataset.commandlinkerCommand = "docmanager:open";
  link.dataset.commandlinkerArgs = JSON.stringify({ path: `${folder ?? ""}${file}` });
}

function render({ model, el }) {
  const { html, choices = [], sends, field, details } = model.get("options");
  const trouble = make("p", "trouble");
  const reason = make("div", "reason");
  const parts = make("div", "parts");
  for (const node of [trouble, reason, parts]) node.setAttribute("role", "status");
  const kernel = connect(model, draw, (text) => setText(trouble, text && `⚠ ${text}`));
  const send = (action, text) => kernel.send({ action, text });

  function mark(node, right, why) {
    reason.style.minHeight = `${reason.offsetHeight}px`; // nothing below moves up again
    for (const answer of answers) answer.removeAttribute("aria-current");
    node.setAttribute("aria-current", "true");
    if (right === null) delete node.dataset.right;
    else node.dataset.right = right;
    setText(node.querySelector(".sign"), right ? "✔" : "✘");
    reason.innerHTML = why;
  }
  function choose(node, right, why) {
    mark(node, right, why);
    if (sends) send("answer", node.lastChild.textContent);
  }
  const answers = field ? [makeField(send)] : choices.map((choice) => makeChoice(choice, choose));
  const { bar, show: showButtons } = makeBar(send);
  const root = make("div", "mha-face", fromHTML("report", html));
  const [longest] = choices.map((choice) => choice.reason).sort((a, b) => b.length - a.length);
  const room = fromHTML("room", longest); // so that nothing below moves when it comes
  if (answers.length)
    root.append(make("div", "answers", ...answers), make("div", "reasons", reason, room));
  const speaker = makeSpeaker();
  root.append(bar, trouble, parts, fromHTML("details", details), speaker.node);
  keepKeys(root);
  el.append(root);
  root.querySelectorAll("a.lesson").forEach(openInLab);
  // A verdict appears away from the focus, so it is read aloud. A question waits on its page.
  if (!answers.length) speaker.speak(root.querySelector(".report strong")?.textContent ?? "");

  let brought = "";
  function draw(state) {
    showButtons(state.buttons);
    const now = (state.parts ?? []).join("");
    if (now !== brought) parts.innerHTML = brought = now; // else folded parts would unfold
    if (state.reason) mark(answers[0], state.right, state.reason);
  }
  kernel.follow();
  return () => {
    kernel.stop();
    speaker.stop();
    root.remove();
  };
}

export default { render: inView(render) };
