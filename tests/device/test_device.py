"""The package on an accelerator: on a pretended one, and on a GPU where there is one."""

import contextlib
import copy
import functools

import nbformat
import pytest
import second_device
import torch
from device_cases import CASES, ON_THE_CPU, REFUSED, scope
from lessons import read
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from mha_course import plots
from mha_course.cli import authoring
from mha_course.errors import ShapeError
from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES
from mha_course.models import checkpoints

pytestmark = pytest.mark.device
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
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
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
