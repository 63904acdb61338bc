"""Numbers, comparisons, and rooms made anew from their source with one place changed, for tests of the references."""

import types
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6}


@pytest.fixture(autouse=True)
def one_thread():
    """Work on one thread where this is imported: on a busy machine small tensors wait long for a second one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def numbers(*shape, seed=0, dtype=torch.float64):
    """Draw normal numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def same(got, want, dtype=torch.float64):
    """Demand the dtype, the shape and the values."""
    assert got.dtype == dtype
    assert got.shape == want.shape
    assert torch.allclose(got, want.to(dtype), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


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


def rewritten(room, before="", after=""):
    """Return a room made from its source with one place changed."""
    source = Path(room.__file__).read_text()
    assert not before or source.count(before) == 1, f"{before!r} must stand in {room.__name__} once"
    copy = types.ModuleType(room.__name__)
    exec(compile(source.replace(before, after) if before else source, "rewritten", "exec"), vars(copy))
    return copy


def fails(check, room, *arguments):
    """Say whether a check fails, or stops, on a room."""
    try:
        check(room, *arguments)
    except (Exception, pytest.fail.Exception):
        return True
    return False
