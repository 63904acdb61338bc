"""Go through a lesson in JupyterLab by keys: what is there, and one move of each."""

import json

from mha_course.cli.jupyter_hooks import WIDGET_VIEW, is_progress

WIDGETS = ".mha-lab, .mha-heads, .mha-layout, .mha-tracer, .mha-card"
CONTROLS = "input, select, textarea, button, summary, [role=slider], [tabindex='0']"
# Not on the way of Tab, because arrow keys lead there from something that is: heads, words, steps,
# the other radio buttons.
ROVING = ".head, .word, .pill, .step, .link, input[type=radio], .widget-readout"
SETTLED = """async (seconds) => {
  const end = performance.now() + 1000 * seconds;
  for (let quiet = 0; quiet < 4; ) {
    await new Promise((done) => setTimeout(done, 40));
    const status = jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status;
    quiet = status === 'idle' ? quiet + 1 : 0;
    if (performance.now() > end) return false;
  }
  return true;
}"""
# A new kernel is asked for widgets before it has ipywidgets: it finds neither that target nor the
# comm that the page made. The page's comms have dashes in their names, those of widgets have none,
# and a widget that is missing counts.
LISTEN = r"""() => {
  window.complaints = [];
  const told = 'target registered: jupyter\\.widget\\.control|: [0-9a-f]{8}-[-0-9a-f]{27}';
  const asked = new RegExp(`^No such comm(?: ${told})\\n`, 'gm');
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  kernel.iopubMessage.connect((_, { header, content }) => {
    if (header.msg_type === 'error') complaints.push(content.traceback.join('\n'));
    const text = header.msg_type === 'stream' && content.name === 'stderr'
      ? content.text.replace(asked, '') : '';
    if (text) complaints.push(text);
  });
}"""
RUN = """() => Promise.race([
  jupyterapp.commands.execute('notebook:run-all-cells').then(() => true),
  new Promise((done) => setTimeout(() => done(false), 600000)),
])"""
FIND = """(root, controls) => [root, ...root.querySelectorAll(controls)].filter((node) =>
  node.matches(controls) && node.checkVisibility({ visibilityProperty: true }) && !node.disabled
    && node.getAttribute('aria-hidden') !== 'true')"""
# What has the focus: can that be seen, which control is it, and in which widget?
FOCUSED = """(widgets) => {
  const node = document.activeElement, track = node.querySelector('.track');
  const near = [node, node.parentElement, node.nextElementSibling, track].filter(Boolean);
  const marked = (one) => {
    const { outlineStyle, outlineWidth, boxShadow, stroke, strokeWidth } = getComputedStyle(one);
    const lined = one.matches('.track, .handle') && stroke !== 'none'
      && parseFloat(strokeWidth) >= 2;
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1) || boxShadow !== 'none'
      || lined;
  };
  const [inside, again] = [node.closest(widgets)?.dataset.walked === 'now',
    node.dataset.tabbed === 'yes'];
  if (inside) node.dataset.tabbed = 'yes';
  return { inside, again, seen: near.some(marked), who: node.outerHTML.slice(0, 160) };
}"""
STATE = (
    "(node) => JSON.stringify([node.value, node.checked, node.getAttribute('aria-valuenow'), "
    "node.selectedIndex])"
)
KIND = """(node) => node.matches('[type=range], [role=slider]') ? 'slider' :
  node.type === 'text' ? 'text' :
  node.type === 'number' ? 'number' : ({ checkbox: 'switch', radio: 'choice',
    'select-one': 'menu' })[node.type] ??
  (node.matches('button, summary') ? 'button' : 'board')"""


def contents(page):
    return page.evaluate("jupyterapp.shell.currentWidget.content.model.toJSON()")


def outputs(notebook):
    for number, cell in enumerate(notebook["cells"]):
        for output in cell.get("outputs", ()):
            yield number, output


def wrong_outputs(notebook):
    found = []
    for number, output in outputs(notebook):
        if output["output_type"] == "error":
            found.append(f"cell {number}: {output['ename']}: {output['evalue']}")
        if output.get("name") == "stderr":
            found.append(f"cell {number} writes to stderr: {''.join(output['text'])[:300]}")
    return found


def views(notebook):
    """Return how many live widgets each cell shows: {number of the cell: count}."""
    counts = {}
    for number, output in outputs(notebook):
        if WIDGET_VIEW in output.get("data", {}) and not is_progress(output):
            counts[number] = counts.get(number, 0) + 1
    return counts


def settle(page, seconds=300):
    """Wait until the kernel has had nothing to do for a moment."""
    assert page.evaluate(SETTLED, seconds), f"the kernel is busy after {seconds} s"


def troubles(page):
    """Return what widgets complain about, and what the page shows if a widget cannot be drawn."""
    return page.evaluate(
        """() => [...document.querySelectorAll(
             ':is(.mha-lab, .mha-heads, .mha-card) .trouble, .widget-html p')]
             .map((node) => node.textContent).filter((text, i) => text.trim())
             .filter((text) => !/^[^⚠]*$/.test(text) || /kernel has not answered/.test(text))
             .concat(/Error displaying widget|Javascript Error|model not found/.exec(
               document.body.innerText) ?? [])"""
    )


def controls(widget):
    """Return a widget's visible controls, and the widget itself if keys move it."""
    found = widget.evaluate_handle(FIND, CONTROLS)
    return [one.as_element() for one in found.get_properties().values() if one.as_element()]


def tab_through(page, widget):
    """Go through a widget with Tab; return what shows no focus, or gets it twice."""
    unseen, inside = [], controls(widget)
    widget.evaluate("(root) => { root.dataset.walked = 'now'; root.scrollIntoView() }")
    inside[0].evaluate("(node) => node.focus({ focusVisible: true })")
    for _ in range(3 * len(inside) + 3):
        here = page.evaluate(FOCUSED, WIDGETS)
        if not here["inside"]:
            break
        if here["again"] or not here["seen"]:
            unseen.append(here["who"])
        page.keyboard.press("Tab")
    widget.evaluate("(root) => { root.dataset.walked = 'before' }")
    return unseen


def unreached(widget):
    """Return the controls that Tab did not come to, though no arrow keys lead there."""
    js = (
        "(node, roving) => node.dataset.tabbed || node.matches(roving) ? '' : "
        "node.outerHTML.slice(0, 160)"
    )
    return [who for control in controls(widget) if (who := control.evaluate(js, ROVING))]


def names(page, widget):
    """Return {control: its name for a screen reader} of a widget, as Chromium computes it."""
    session, found, ask = page.context.new_cdp_session(page), {}, "Accessibility.getPartialAXTree"
    widget.evaluate(f"(root) => {{ window.walked = ({FIND})(root, {json.dumps(CONTROLS)}) }}")
    for number in range(page.evaluate("walked.length")):
        node = session.send("Runtime.evaluate", {"expression": f"walked[{number}]"})["result"][
            "objectId"
        ]
        (tree, *_) = session.send(ask, {"objectId": node, "fetchRelatives": False})["nodes"]
        who = page.evaluate("(number) => walked[number].outerHTML.slice(0, 160)", number)
        found[f"{number}: {who}"] = tree.get("name", {}).get("value", "").strip()
    session.detach()
    return found


def press(page, control, *keys):
    control.focus()
    for key in keys:
        page.keyboard.press(key)


def move(page, control):
    """Move a control once with keys. Return what did not answer, or nothing."""
    if not control.evaluate("(node) => node.isConnected && node.checkVisibility()"):
        return ""
    kind, before = control.evaluate(KIND), control.evaluate(STATE)
    if kind in ("slider", "menu"):
        there, back = ("ArrowRight", "ArrowLeft") if kind == "slider" else ("ArrowDown", "ArrowUp")
        press(page, control, there)
        if control.evaluate(STATE) == before:
            press(page, control, back)  # it was at its end
    elif kind in ("switch", "choice"):
        press(page, control, "ArrowRight" if kind == "choice" and control.is_checked() else " ")
    elif kind == "text":
        words = control.input_value().split()
        control.fill(" ".join(words[:-1] or words))
        press(page, control, "Enter")
    elif kind == "button":
        press(page, control, "Enter")
        if "❚❚" in control.text_content():  # it plays
            page.wait_for_timeout(400)
            press(page, control, "Enter")
    else:
        press(page, control, "ArrowDown", "ArrowRight", " ")
    settle(page)
    only = control.evaluate("(node) => node.max === '0' || node.length === 1")
    stuck = kind in ("slider", "menu", "switch") and not only and control.evaluate(STATE) == before
    return control.evaluate("(node) => node.outerHTML.slice(0, 160)") if stuck else ""
