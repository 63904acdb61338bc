"""Statements about kernels against the kernels themselves."""

import pytest
import torch
from rewriting import numbers
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from mha_course.errors import ShapeError
from mha_course.lessons.l12_flash_attention import kernels

B, T, S, H, D = 2, 5, 7, 4, 6


class Ran(TorchDispatchMode):
    """Note which of PyTorch's own kernels was called."""

    name = "math"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for part in ("flash", "efficient", "cudnn"):
            if f"_scaled_dot_product_{part}_attention" in func.name():
                self.name = part
        return func(*args, **(kwargs or {}))


def inputs(device):
    """Inputs of every kind that some kernel refuses, as (q, k, v, mask, causal)."""
    q, k, v = (
        numbers(B, H, n, 8, seed=seed, dtype=torch.float32).to(device)
        for seed, n in enumerate((T, S, S))
    )
    mask = torch.ones(T, S, dtype=torch.bool, device=device)
    wide, strided = torch.cat((v, v), dim=-1), q.mT.contiguous().mT
    yield from (
        (q, k, v, None, False),
        (q, k, v, None, True),
        (q, k, v, mask, False),
        (q, k, wide, None, False),
    )
    yield from ((strided, k, v, None, False), (q.half(), k.half(), v.half(), None, False))
    yield (*(x.detach().requires_grad_() for x in (q, k, v)), mask, False)
    yield (q.double(), k.double(), v.double(), None, False)


@pytest.mark.filterwarnings("ignore:.*not used because|.*requires|.*kernel:UserWarning")
def test_the_kernel_that_is_named_runs(device):
    for q, k, v, mask, causal in inputs(device):
        with Ran() as ran:
            F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        assert kernels.sdpa_choice(q, k, v, mask, causal=causal) == ran.name


def test_inputs_that_do_not_fit():
    with pytest.raises(ShapeError, match="sdpa_choice: v has the wrong S"):
        kernels.sdpa_choice(*(torch.zeros(B, H, n, D) for n in (T, S, T)))
