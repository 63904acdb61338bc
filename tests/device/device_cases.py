"""The package on an accelerator: on a simulated one, and on a GPU if there is one."""

import contextlib
import copy
import importlib
import re
from pathlib import Path

import pytest
import second_device
import torch
from labs import LABS
from lessons import code_cells, modules_named, read
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from mha_course import attention, caching, example, masks, models, plots, positions
from mha_course.cli import authoring
from mha_course.errors import ShapeError
from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES
from mha_course.lessons.l14_vision import shapes
from mha_course.lessons.l15_language_model import language_model
from mha_course.lessons.l18_real_models import real_models
from mha_course.models import published

pytestmark = pytest.mark.device
DEVICES = [second_device.NAME] if second_device.compiler() else []
DEVICES += ["cuda"] if torch.cuda.is_available() else []
if not DEVICES:
    pytest.skip("the pretended device needs a C++ compiler", allow_module_level=True)
CHOICE = '"cuda" if torch.cuda.is_available() else "cpu"'  # in notebooks
SECTIONS = (Path(__file__).parent / "calls.txt").read_text(encoding="utf-8").split("\n# ")[1:]
SAME, REFUSED, DRAWN = (list(filter(None, section.splitlines()[1:])) for section in SECTIONS)
REFERENCE = ["attention", "masks", "positions", "caching", "flash", "variants", "example"]
CORE = ["models", "plots", "tracing", "widgets", "models.language"]
CORE += ["experiments.head_analysis", "experiments.head_tasks", "experiments.leakage"]
MODULES = [importlib.import_module(f"mha_course.{name}") for name in REFERENCE + CORE]
MODULES += modules_named(
    *("associative_recall", "head_tables", "induction", "language_model", "limits", "pronouns"),
    *("real_models", "scaling", "shapes", "toy_language", "translation", "vision", "widget"),
)
# What takes no tensor, or is called by what is built on it.
CALLED_BY_OTHERS = {
    *("AttentionModule", "AttentionSteps", "Example", "KVCache", "MultiHeadAttention", "Variant"),
    *("blocks", "copy_linears", "decode_chunk", "has_bias", "kv_cache_bytes", "new_model", "save"),
    "require_texts",
}


@pytest.fixture(params=DEVICES)
def accelerator(request):
    return second_device.load() if request.param == second_device.NAME else request.param


class Names:
    """What a call may name: tensors and models on a device, with the same numbers on each."""

    TOKENS = ("the", "grey", "cat", "was", "hungry")
    HIDDEN = "the grey cat that chased the loud dogs was hungry , so <mask> ate greedily"
    TEXTS = tuple(t for t in example.sentences(80, "test", seed=0) if "pronoun" in t.pairs)

    def __init__(self, device):
        generator = torch.Generator().manual_seed(0)
        sizes = {"q": (2, 4, 5, 6), "x": (2, 5, 24), "w": (24, 24), "weights": (1, 4, 5, 5)}
        drawn = {
            name: torch.randn(shape, generator=generator, device="cpu")
            for name, shape in sizes.items()
        }
        drawn["weights"] = drawn["weights"].softmax(-1)
        vars(self).update({name: numbers.to(device) for name, numbers in drawn.items()})
        self.device = device
        self.causal = masks.causal_mask(5, device=device)
        self.padding = masks.padding_mask([3, 5], 5, device=device)
        self.mha = self.to(attention.MultiHeadAttention, 24, 4)
        self.masked_words = example.trained_model().to(device)
        self.words = language_model.new_language_model(0).to(device)
        self.pictures = shapes.draw(4, torch.Generator().manual_seed(0))
        self.bert = self.checkpoint("bert")

    def to(self, make, *arguments):
        with models.seeded(0):
            return make(*arguments).to(self.device).eval()

    def checkpoint(self, family):
        return real_models.Checkpoint(real_models.shipped(family), small=True, device=self.device)

    def plugged_in(self, family):
        model = real_models.load(real_models.shipped(family))
        model.set_attn_implementation(published.plug_in(attention.attention))
        return model.to(self.device)

    def ids(self, rows, width, words=32):
        return (torch.arange(rows * width) % words).view(rows, width).to(self.device)

    def decoded(self, module):
        cache = caching.KVCache()
        chunks = self.x.split(3, dim=1)
        return [caching.decode_chunk(module, chunk, cache) for chunk in chunks], cache.k

    def gradients(self, fn):
        given = [self.q.clone().requires_grad_() for _ in range(3)]
        return torch.autograd.grad(fn(*given).square().sum(), given)

    def losses(self, block):
        batches = models.random_batches([self.x.cpu(), self.x.cpu()], 2, 0)
        loss = lambda model, given, wanted: (model(given) - wanted).square().mean()  # noqa: E731
        return models.train(block, batches, loss, steps=3, lr=1e-2, progress=False)


def outcome(call, device):
    """Return what a call of calls.txt gives where its tensors are on a device."""
    names = Names(device)
    own = {name: getattr(names, name) for name in dir(names) if not name.startswith("__")}
    modules = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    return eval(call, {"torch": torch, **LABS, **modules, **own})


def parts(result):
    """Return all tensors and other values of a result, in order."""
    if isinstance(result, dict):
        result = [*result, *result.values()]
    if isinstance(result, list | tuple):
        return [part for item in result for part in parts(item)]
    return [plots.svg(result) if isinstance(result, Axes | Figure) else result]


def assert_same(found, wanted, device):
    """Assert that two results are alike, and that the tensors of the first are on a device."""
    for one, other in zip(parts(found), parts(wanted), strict=True):
        if isinstance(one, Tensor):
            assert one.device.type == device
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert one == (pytest.approx(other, rel=1e-4) if isinstance(one, float) else other)


@pytest.mark.parametrize("call", SAME)
@pytest.mark.parametrize("exact", [True, False], ids=["float64", "no float64"])
def test_on_the_device_as_on_the_cpu(call, exact, accelerator):
    if not exact and accelerator != second_device.NAME:
        pytest.skip("this device has float64")
    with contextlib.nullcontext() if exact else second_device.no_float64():
        found = outcome(call, accelerator)
    assert_same(found, outcome(call, "cpu"), accelerator)


@pytest.mark.parametrize("line", REFUSED)
def test_what_lies_elsewhere_is_named(line, accelerator):
    call, name = line.split(" -> ")
    with pytest.raises(ShapeError, match=rf"fix: {name}\.to\('"):
        outcome(call, accelerator)


@pytest.mark.parametrize("call", DRAWN)
def test_a_default_device_changes_nothing_that_is_drawn_on_the_cpu(call, accelerator):
    wanted = outcome(call, "cpu")
    with torch.device(accelerator):
        found = outcome(call, "cpu")
    assert_same(found, wanted, "cpu")


def test_every_public_name_of_the_reference_is_called():
    called = set(re.findall(r"\w+", " ".join(SAME + DRAWN))) | CALLED_BY_OTHERS
    for module in MODULES[: len(REFERENCE)]:
        for name, thing in vars(module).items():
            is_own = getattr(thing, "__module__", None) == module.__name__
            assert not is_own or name[0] == "_" or name in called, name


def test_rope_is_exact_in_bfloat16_and_far_into_a_text(accelerator):
    q = Names(accelerator).q.to(torch.bfloat16)  # (B, H, S, D)
    rotated = positions.rope(q, range(99_999, 100_004))
    straight = q.cpu().double()
    places = torch.arange(99_999, 100_004, dtype=torch.float64)[:, None]
    turns = torch.polar(torch.ones(5, 3).double(), places * 10000.0 ** (-torch.arange(3) / 3))
    turned = torch.complex(*straight.chunk(2, dim=-1)) * turns
    wanted = torch.cat((turned.real, turned.imag), dim=-1)
    assert (rotated.cpu() - wanted).abs().max() < straight.abs().max() / 128  # steps of bfloat16


def moved(value, device):
    """Move all tensors of a value; a function is called where it is, and its results are moved."""
    if isinstance(value, dict):
        return {name: moved(item, device) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(item, device) for item in value)
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).to(device)
    if callable(value):
        return lambda *given: moved(value(*moved(given, "cpu")), device)
    return value.to(device) if isinstance(value, Tensor) else value


@pytest.mark.parametrize("name", EXERCISES)
def test_an_answer_may_compute_and_return_on_the_device(name, accelerator):
    reference = EXERCISES[name].reference
    if isinstance(reference, type):
        pytest.skip("a class is given no device")

    def answer(*given):
        return reference(*moved(given, accelerator))

    report = check(name, answer, record=False)
    assert report.status == "correct", report.message


@pytest.mark.parametrize(
    "name", ["12_flash_attention", pytest.param("18_real_models", marks=pytest.mark.weekly)]
)
def test_a_lesson_that_uses_a_gpu_says_the_same_on_the_device(name, accelerator):
    notebook = copy.deepcopy(read(authoring.LESSONS / f"{name}.ipynb"))
    kept = [texts(cell) for cell in code_cells(notebook)]
    chooses = [cell for cell in notebook.cells if CHOICE in cell.source]
    assert len(chooses) == 1
    if accelerator == second_device.NAME:
        load = '__import__("second_device").load()'
        chooses[0].source = chooses[0].source.replace(CHOICE, load)
    authoring.execute(notebook, PYTHONPATH=str(Path(second_device.__file__).parents[1]))
    authoring.link_to_site(notebook)
    assert [texts(cell) for cell in code_cells(notebook)] == kept


def texts(cell):
    """Return what a cell says, where no machine changes it; of a picture its caption and alt."""
    if "nbval-ignore-output" in cell.metadata.get("tags", ()):
        return []
    said = [(out.get("text"), sorted(out.get("data", {}).items())) for out in cell.outputs]
    return re.sub(r'width="\d+" src="data:[^"]*', "", str(said))
