// The menu of a case: choose a sentence, accuse the case of it, and read the answer. Choosing by itself does nothing.

import { keepKeys, make, setText } from "../../widgets/dom.js";
import { inView } from "../../widgets/in_view.js";
import { connect } from "../../widgets/protocol.js";

function render({ model, el }) {
  const { text, panels, accused: last } = model.get("state");
  const select = make("select", "", new Option("choose a sentence", ""));
  select.dataset.lmSuppressShortcuts = true; // else JupyterLab takes its arrow keys
  for (const [label, choices] of model.get("options").groups) {
    const options = choices.map(([id, sentence]) => new Option(sentence, id));
    select.append(...(label ? [make("optgroup", { label }, ...options)] : options));
  }
  const label = make("label", "control", make("span", "", "What is wrong?"), select);
  const form = make("form", "controls", label, make("button", { type: "submit" }, "Accuse"));
  const [picture, trouble, answer] = ["panel picture", "trouble", "answer"].map((name) =>
    make("div", name),
  );
  for (const node of [trouble, answer]) node.setAttribute("role", "status");
  picture.innerHTML = panels[0].html; // as all HTML here, the course's own
  const sides = make("div", "sides", picture, make("div", "", form, trouble, answer));
  const root = make("section", "mha-picture mha-hunt", make("p", "", text), sides);
  keepKeys(root);
  el.append(root);

  let accusedLast = last;
  const kernel = connect(model, draw, (words) => setText(trouble, words && `⚠ ${words}`));
  function draw({ accused, answer: html, trouble: wrong }) {
    answer.innerHTML = accused === accusedLast || wrong ? html : "checking …";
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!select.value) return;
    accusedLast = select.value;
    answer.textContent = "checking …";
    kernel.send({ accused: accusedLast });
  });
  select.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // which would open it
    form.requestSubmit();
  });
  kernel.follow();
  return () => {
    kernel.stop();
    root.remove();
  };
}

export default { render: inView(render) };
