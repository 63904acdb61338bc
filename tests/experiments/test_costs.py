"""Operations and the memory meter against sums done by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from mha_course.attention import MultiHeadAttention, attention
from mha_course.experiments import costs

N = 1000
B, T, S, H, D = 2, 5, 7, 4, 6


@pytest.mark.parametrize("heads", [1, 4])
def test_operations_of_attention_are_those_of_the_formula(heads):
    mha, x = MultiHeadAttention(24, heads), torch.zeros(2, 7, 24)
    counted = costs.count_flops(lambda: mha.steps(x))
    assert counted.projections == 4 * 2 * 2 * 7 * 24 * 24
    assert counted.attention == 2 * 2 * 2 * 7 * 7 * 24


def chain(x):
    """Two at a time, x + 1 gone before the third."""
    y = x + 1
    y = y.exp()
    return y * 2


def views(x):
    y = x + 1
    return y.view(10, -1).T[2:], y[:3], y.unsqueeze(0)


def through_a_view(x):
    y = (x + 1)[:1]  # keeps all of it alive
    return y + 1


def forgotten(x):
    (x + 1).sum()
    return x * 2


# name: (a function of N float32 numbers, the most bytes alive at once)
KNOWN = {
    "nothing": (lambda x: x, 0),
    "a chain": (chain, 8 * N),
    "views": (views, 4 * N),
    "in place": (lambda x: (x + 1).add_(1).mul_(2), 4 * N),
    "through a view": (through_a_view, 4 * N + 4),
    "one after the other": (forgotten, 4 * N + 4),
    "into what was there": (lambda x: torch.zeros(N, out=x), 0),
    "a factory": (lambda x: torch.zeros(N, dtype=torch.float64), 8 * N),
    "several results": (lambda x: x.topk(10), 10 * (4 + 8)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_amounts(name):
    fn, want = KNOWN[name]
    assert costs.peak_bytes(fn, torch.zeros(N)) == want


def test_backward_counts():
    x = torch.zeros(N, requires_grad=True)
    # exp keeps its result; the gradient of the sum is a view of one number, and becomes exp's
    # gradient, 4 N more
    assert costs.peak_bytes(lambda: x.exp().sum().backward()) == 4 * N + 4 + 4 + 4 * N
    linear = nn.Linear(30, 20)
    assert costs.peak_bytes(lambda: linear(torch.zeros(10, 30)).sum()) == 4 * (
        10 * 30 + 10 * 20 + 1
    )


def test_arguments_by_name_are_not_counted():
    assert (
        costs.peak_bytes(lambda *, pair: pair[0] + pair[1], pair=(torch.zeros(N), torch.zeros(N)))
        == 4 * N
    )


def test_numbers_need_not_exist():
    q, k, v = (torch.zeros(1, 1, 200_000, 16, device="meta") for _ in range(3))
    scores = 4 * 200_000**2
    assert 3 * scores <= costs.peak_bytes(attention, q, k, v) < 3.1 * scores


def test_the_gpu_allocator_agrees(device):
    if device == "cpu":
        pytest.skip("the CPU's allocator does not tell")
    x = torch.zeros(2, 512, 64, device=device)
    mha = MultiHeadAttention(64, 4).to(device)
    mha(x)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = costs.peak_bytes(mha, x)
    assert found == pytest.approx(torch.cuda.max_memory_allocated() - before, rel=0.05)


def test_inference_mode_takes_as_much_memory():
    q, k, v = (torch.randn(B, H, n, D) for n in (T, S, S))
    with sdpa_kernel(SDPBackend.MATH):  # holds the scores, inside one call
        with torch.no_grad():
            found = costs.peak_bytes(F.scaled_dot_product_attention, q, k, v)
        with torch.inference_mode():
            assert (
                costs.peak_bytes(F.scaled_dot_product_attention, q, k, v)
                == found
                > 4 * B * H * T * S
            )
