"""How a question or a report is displayed with a kernel, tested without a browser."""

from ipywidgets.widgets.widget import _instances

from mha_course.cli.jupyter_hooks import WIDGET_VIEW


class LiveCard:
    """The card that an object displays as, in the form sent to the browser."""

    def __init__(self, shown):
        view = shown._repr_mimebundle_()[WIDGET_VIEW]
        self.card = _instances[view["model_id"]]
        self.face = self.card.children[0]

    @property
    def shown(self):
        return {**self.face.options, **self.face.state}

    @property
    def widgets(self):
        return self.card.children[1:]

    def press(self, action, text=""):
        """Ask as a button or a field does; return how it was marked, if it was."""
        serial = self.face.event.get("serial", 0) + 1
        self.face.event = {"serial": serial, "action": action, "text": text}
        assert self.shown["serial"] == serial
        return self.shown.get("right"), self.shown.get("reason")

    def labels(self):
        """Return the labels of the buttons that can be pressed."""
        return [button["label"] for button in self.shown["buttons"] if not button["done"]]
