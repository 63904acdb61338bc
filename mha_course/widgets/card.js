// A card: what was found or asked, choices, a field or buttons below it, and what they bring. Choices are marked here,
// so that they are without a kernel, too; all else the kernel answers.

import { GONE, makeAsker } from "./controls.js";
import { keepKeys, make, makeButton, say } from "./dom.js";

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
  const input = Object.assign(make("input"), {
    type: "text",
    autocomplete: "off",
    spellcheck: false,
    maxLength: 120,
  });
  const button = Object.assign(make("button", "", "Answer"), { type: "submit" });
  const label = make("label", "", make("span", "", "Your answer"), input);
  const field = make("form", "field", label, button, make("span", "sign"));
  field.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) send("answer", input.value);
  });
  input.addEventListener("input", () => delete field.dataset.right); // the mark was for what stood there
  return field;
}

/** Make a row of buttons that changes with what has been asked, and keeps the focus where it is. */
function makeBar(send) {
  const [bar, buttons] = [make("div", "bar"), new Map()];
  function add(action) {
    const button = makeButton(
      "",
      "",
      () => button.getAttribute("aria-disabled") === "true" || send(action, ""),
    );
    buttons.set(action, button);
    bar.append(button);
  }
  function show(specs = []) {
    for (const { action, label, done } of specs) {
      if (!buttons.has(action)) add(action);
      say(buttons.get(action), label);
      buttons.get(action).setAttribute("aria-disabled", done);
    }
  }
  return { bar, show };
}

function render({ model, el }) {
  const { html, choices = [], field, foot } = model.get("shown");
  let brought = "";
  const queue = makeAsker(model, "asked", () => say(trouble, `⚠ ${GONE}`));
  const send = (action, text) => queue.ask({ action, text });
  const [trouble, reason, parts] = [
    make("p", "trouble"),
    make("div", "reason"),
    make("div", "parts"),
  ];
  for (const node of [trouble, reason, parts]) node.setAttribute("role", "status");

  function mark(node, right, why) {
    reason.style.minHeight = `${reason.offsetHeight}px`; // what stands below does not come up again
    for (const one of answers) one.removeAttribute("aria-current");
    node.setAttribute("aria-current", "true");
    node.dataset.right = right;
    say(node.querySelector(".sign"), right ? "✔" : "✘");
    reason.innerHTML = why;
  }
  const answers = field ? [makeField(send)] : choices.map((choice) => makeChoice(choice, mark));
  const { bar, show: showButtons } = makeBar(send);
  const root = make("div", "mha-face", fromHTML("said", html));
  if (answers.length) root.append(make("div", "answers", ...answers), reason);
  root.append(bar, trouble, parts, fromHTML("foot", foot));
  keepKeys(root);
  el.append(root);

  function follow() {
    const shown = model.get("shown");
    showButtons(shown.buttons);
    const now = (shown.parts ?? []).join("");
    if (now !== brought) parts.innerHTML = brought = now; // else what somebody folded would unfold
    say(trouble, shown.trouble ?? "");
    if (shown.reason) mark(answers[0], shown.right, shown.reason);
    queue.landed(shown.number);
    queue.pump();
  }
  model.on("change:shown", follow);
  follow();
  return () => {
    queue.stop();
    model.off("change:shown", follow);
    root.remove();
  };
}

export default { render };
