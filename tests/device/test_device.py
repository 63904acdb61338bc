"""The package on an accelerator: on a pretended one, and on a GPU where there is one."""

import contextlib
import copy
import re
from pathlib import Path

import pytest
import second_device
import torch
from device_cases import CASES, ON_THE_CPU, REFUSED, scope
from lessons import code_cells, read
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from mha_course import attention, caching, example, flash, masks, plots, positions, variants
from mha_course.cli import authoring
from mha_course.errors import ShapeError
from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES
from mha_course.models import checkpoints, published

pytestmark = pytest.mark.device
SUPPORT = Path(second_device.__file__).parents[1]
FUNCTIONS = [
    name for name, exercise in EXERCISES.items() if not isinstance(exercise.reference, type)
]
# What takes no tensor, or has a case through what is built on it.
NO_TENSOR = {"AttentionModule", "AttentionSteps", "Example", "Variant", "blocks", "copy_linears"}
NO_TENSOR |= {
    "KVCache",
    "MultiHeadAttention",
    "decode_chunk",
    "has_bias",
    "kv_cache_bytes",
    "new_model",
    "save",
}
CHOICE = '"cuda" if torch.cuda.is_available() else "cpu"'  # in notebooks


@pytest.fixture(params=["pretended", *(["cuda"] if torch.cuda.is_available() else [])])
def accelerator(request):
    if request.param == "pretended":
        if second_device.compiler() is None:
            pytest.skip("the pretended device needs a C++ compiler")
        second_device.load()
    return request.param


def parts(result):
    """Return all tensors and other values of a result, in order."""
    if isinstance(result, dict):
        result = [*result, *result.values()]
    if isinstance(result, list | tuple):
        return [part for item in result for part in parts(item)]
    return [plots.png(result) if isinstance(result, Axes | Figure) else result]


def assert_same(found, wanted, device):
    """Assert that two results are alike, and that the tensors of the first are on a device."""
    for one, other in zip(parts(found), parts(wanted), strict=True):
        if isinstance(one, Tensor):
            assert one.device.type == device
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert one == (pytest.approx(other, rel=1e-4) if isinstance(one, float) else other)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("exact", [True, False], ids=["float64", "no float64"])
def test_on_the_device_as_on_the_cpu(case, exact, accelerator):
    if not exact and accelerator != "pretended":
        pytest.skip("this device has float64")
    with contextlib.nullcontext() if exact else second_device.no_float64():
        found = eval(case, scope(accelerator))
    assert_same(found, eval(case, scope("cpu")), accelerator)


@pytest.mark.parametrize("case", REFUSED)
def test_what_lies_elsewhere_is_named(case, accelerator):
    call, name = case.split(" -> ")
    with pytest.raises(ShapeError, match=rf"fix: {name}\.to\('"):
        eval(call, scope(accelerator))


@pytest.mark.parametrize("case", ON_THE_CPU)
def test_a_default_device_changes_nothing_that_is_drawn_on_the_cpu(case, accelerator):
    wanted = eval(case, scope("cpu"))
    with torch.device(accelerator):
        found = eval(case, scope("cpu"))
    assert_same(found, wanted, "cpu")


def is_of(module, thing):
    return getattr(thing, "__module__", None) == module.__name__


def test_every_public_name_stands_in_a_case():
    called = set(re.findall(r"\w+", " ".join(CASES + ON_THE_CPU)))
    for module in (attention, masks, positions, caching, flash, variants, example):
        own = [name for name, thing in vars(module).items() if is_of(module, thing)]
        assert {name for name in own if name[0] != "_"} <= called | NO_TENSOR, module.__name__


def test_rope_is_exact_in_a_module_of_bfloat16(accelerator):
    module = published.RotaryAttention(24, 4, 2, 6, bias=False, base=10000.0)
    module.to(accelerator, torch.bfloat16)
    x = scope(accelerator)["x"].to(torch.bfloat16)
    q, _, _ = module.project(x, x, x, 99_999)
    straight = attention.split_heads(module.q_proj(x), 4).cpu().double()
    wanted = positions.rope(straight, range(99_999, 100_004))
    assert (q.cpu() - wanted).abs().max() < straight.abs().max() / 128  # a few steps of bfloat16


def test_rope_is_exact_in_a_model_that_was_made_without_numbers(accelerator):
    model = checkpoints.load(checkpoints.shipped("llama"))
    empty = copy.deepcopy(model).to("meta").to_empty(device=accelerator)
    empty.load_state_dict(model.state_dict())
    ids = torch.arange(12).view(2, 6)
    assert_same(empty(ids.to(accelerator)), model(ids), accelerator)


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


@pytest.mark.xfail(strict=False, reason="check moves gradients")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_answer_may_compute_and_return_on_the_device(name, accelerator):
    def answer(*given):
        return EXERCISES[name].reference(*moved(given, accelerator))

    report = check(name, answer, record=False)
    assert report.status == "correct", report.message


@pytest.mark.parametrize("name", ["12_flash_attention", "18_real_models"])
def test_a_lesson_that_uses_a_gpu_runs_on_the_device_and_says_the_same(name, accelerator):
    notebook = copy.deepcopy(read(authoring.LESSONS / f"{name}.ipynb"))
    kept = [texts(cell) for cell in code_cells(notebook)]
    choices = [cell for cell in notebook.cells if CHOICE in cell.source]
    assert len(choices) == 1
    if accelerator == "pretended":
        load = '__import__("second_device").load()'
        choices[0].source = choices[0].source.replace(CHOICE, load)
    authoring.execute(notebook, PYTHONPATH=str(SUPPORT))
    assert [texts(cell) for cell in code_cells(notebook)] == kept


def texts(cell):
    """Return what a cell says, where no machine changes it; of a picture its caption and alt."""
    if "nbval-ignore-output" in cell.metadata.get("tags", ()):
        return []
    said = [(out.get("text"), sorted(out.get("data", {}).items())) for out in cell.outputs]
    return re.sub(r'width="\d+" src="data:[^"]*', "", str(said))
