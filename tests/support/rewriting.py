"""Numbers, comparisons, and wrong lines instead of right ones."""

import inspect
import re
import textwrap

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mha_course.errors import ShapeError

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(*shape, seed=0, dtype=torch.float64, device="cpu"):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64).to(device, dtype)


def same(got, want, dtype=torch.float64):
    assert (got.dtype, got.shape) == (dtype, want.shape)
    assert torch.allclose(got, want.to(dtype), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def same_when_compiled(module, inputs, **options):
    """Demand that a module compiles as one graph, with the same results and gradients."""
    torch.compiler.reset()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    results, gradients = [], []
    for run in (compiled, module):
        result = run(*inputs, **options)
        results.append(result if isinstance(result, tuple) else (result,))
        gradients.append(
            torch.autograd.grad(results[-1][0].square().sum(), [inputs[0], *module.parameters()])
        )
    for mine, theirs in (*zip(*results, strict=True), *zip(*gradients, strict=True)):
        assert (mine is theirs is None) or torch.allclose(mine, theirs)
    return results[0]


def refused(call, message):
    """Demand that a call raises a ShapeError with this whole message."""
    with pytest.raises(ShapeError, match=rf"\A{re.escape(message)}\Z"):
        call()


class Largest(TorchDispatchMode):
    """Keep the largest number of values that any operation returns, and count the operations."""

    def __init__(self):
        super().__init__()
        self.values, self.calls = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.calls[func.overloadpacket] = self.calls.get(func.overloadpacket, 0) + 1
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and not func.is_view:
                self.values = max(self.values, tensor.numel())
        return result


def fails(check, *arguments):
    """Return whether a check fails; an unrelated error in the wrong version is raised."""
    try:
        check(*arguments)
    except (AssertionError, RuntimeError, ValueError, IndexError, pytest.fail.Exception):
        return True
    return False


def fails_with(check, function, old, new):
    """Return whether a check fails while a function has other code in one place."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, old
    space = {}
    exec(source.replace(old, new), function.__globals__, space)
    right = function.__code__
    function.__code__ = inspect.unwrap(space[function.__name__]).__code__
    try:
        return fails(check)
    finally:
        function.__code__ = right


def wrong_versions(groups):
    """Give a test each check and an edit: {check: {what is wrong: (function, old, new)}}."""
    cases = [
        pytest.param(check, edit, id=wrong)
        for check, group in groups.items()
        for wrong, edit in group.items()
    ]
    return pytest.mark.parametrize(("check", "edit"), cases)
