"""Numbers, comparisons, and wrong parts in the place of right ones."""

from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mha_course.errors import ShapeError

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(*shape, seed=0, dtype=torch.float64, device="cpu"):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64).to(device, dtype)


def bottom_right(queries, keys, device=None):
    """What the queries see when they are the last of all tokens."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def top_left(queries, keys, device=None):
    """What the queries see when they are the first of all tokens."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()


def same(got, want, dtype=torch.float64):
    assert got.dtype == dtype
    assert got.shape == want.shape
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
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


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
    """Return whether a check fails; a slip of the wrong version's own is raised."""
    try:
        check(*arguments)
    except (AssertionError, RuntimeError, ValueError, IndexError, pytest.fail.Exception):
        return True
    return False


def fails_with(check, target, parts, *arguments):
    """Return whether a check fails while a module or class has other parts."""
    with mock.patch.multiple(target, **parts):
        return fails(check, *arguments)


def wrong_versions(groups):
    """Give a test each check and its wrong parts: {check: {what is wrong: parts}}."""
    cases = [
        pytest.param(check, parts, id=wrong)
        for check, group in groups.items()
        for wrong, parts in group.items()
    ]
    return pytest.mark.parametrize(("check", "parts"), cases)
