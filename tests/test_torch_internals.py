"""The parts of torch that the course uses without a promise: they work as expected, and are all
in one file.
"""

import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend
from torch.utils.flop_counter import FlopCounterMode

import mha_course
from mha_course.attention import MultiHeadAttention
from mha_course.op_counter import OpCounter
from mha_course.tracing import trace

# Torch's private modules and attributes, and those names of its private attributes that are read
# from other objects.
PRIVATE = re.compile(
    r"\btorch(\.\w+)*\._[a-z]|\bfrom torch[\w.]*\._|\bfrom torch[\w.]* import _|\bflop_counter\b"
    r"|\b(_cdata|_dispatch_has_kernel_for_dispatch_key|_fused_sdp_choice|_op_dk|_overloadpacket"
    r"|_scaled_dot_product_flash_attention_for_cpu(_backward)?|_should_skip_dynamo)\b"
)
PACKAGE = Path(mha_course.__file__).parent


def test_private_names_stand_in_one_file():
    """Private parts of torch belong in torch_internals.py."""
    found = {path: PRIVATE.search(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    assert [path for path, match in found.items() if match] == [PACKAGE / "torch_internals.py"]


# The counter against torch's own


def qkv(heads=4, kv_heads=4, grad=False):
    q, k, v = (torch.randn(2, h, n, 6) for h, n in ((heads, 5), (kv_heads, 7), (kv_heads, 7)))
    return [x.requires_grad_(grad) for x in (q, k, v)]


def backward():
    torch.manual_seed(0)
    MultiHeadAttention(24, 4)(torch.randn(2, 5, 24))[0].sum().backward()


RUNS = {
    "products": lambda: torch.randn(2, 5, 6) @ torch.randn(2, 6, 7),
    "products added to a sum": lambda: torch.baddbmm(
        torch.randn(2, 5, 7), torch.randn(2, 5, 6), torch.randn(2, 6, 7)
    ),
    "convolution": lambda: F.conv1d(torch.randn(1, 3, 9), torch.randn(4, 3, 2)),
    "a module": lambda: MultiHeadAttention(24, 4)(torch.randn(2, 5, 24)),
    "a backward pass": backward,
    "attention by the plain kernel": lambda: F.scaled_dot_product_attention(
        *qkv(kv_heads=2), enable_gqa=True
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_flops_are_those_of_torch(name, mode):
    if name == "a backward pass" and mode is torch.inference_mode:
        pytest.skip("nothing can be sent back")
    with mode(), torch.nn.attention.sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as theirs:
            RUNS[name]()
        with OpCounter() as ours:
            RUNS[name]()
    assert ours.flops == sum(ours.flops_by_op.values()) == theirs.get_total_flops() > 0


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_the_fused_kernel_of_the_cpu_counts_as_its_products(kv_heads):
    q, k, v = qkv(kv_heads=kv_heads, grad=True)
    product = 2 * 2 * 4 * 5 * 7 * 6  # B H T S D, a multiply-add is 2
    with OpCounter() as counter:
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=kv_heads < 4)
        assert counter.flops == 2 * product
        out.sum().backward()
    # scores again, and a product for each of four gradients
    assert counter.flops == 2 * product + 5 * product


def test_a_module_of_torch_is_counted_with_the_kernel_inside():
    module, x = torch.nn.MultiheadAttention(24, 4, batch_first=True), torch.randn(2, 5, 24)
    with_weights, without = (
        sum(s.flops for s in trace(module, x, x, x, need_weights=n).steps) for n in (True, False)
    )
    assert with_weights == without > 0


def test_inference_mode_changes_neither_flops_nor_copies():
    x, mha = torch.randn(2, 5, 24), MultiHeadAttention(24, 4).eval()
    steps = trace(mha, x).steps
    with torch.inference_mode():
        again = trace(mha, x).steps
    assert [(s.op, s.flops, s.hidden_copies) for s in again] == [
        (s.op, s.flops, s.hidden_copies) for s in steps
    ]
    product = 2 * 2 * 5 * 5 * 24  # B T S C, a multiply-add is 2
    assert [s.flops for s in steps if s.op == "matmul"] == [product, product]
    assert sum(s.flops for s in steps) == 4 * 2 * 2 * 5 * 24 * 24 + 2 * product
