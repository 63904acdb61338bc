"""How long attention takes, against calling F.scaled_dot_product_attention by hand: a table of ratios.

    python tests/benchmarks/attention.py [--longest 4096] [--d-model 512] [--heads 8] [--rounds 15] [--masked]

Every way has the same Linears and the same input, float32, no gradients, no weights returned but by the reference.
The ways take turns, round after round, and medians are compared, so that what else runs on the machine meets all of
them alike. On the CPU there is one thread.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.benchmark import Timer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mha_course import variants
from mha_course.attention import MultiHeadAttention, merge_heads, split_heads
from mha_course.flash import tiled_attention
from mha_course.masks import causal_mask

BASE = "SDPA by hand"


def by_hand(mha, attend, x):
    """Project, split, attend and merge, without a check."""
    batch, tokens, width = x.shape
    q, k, v = (
        proj(x).view(batch, tokens, mha.num_heads, -1).transpose(1, 2) for proj in (mha.q_proj, mha.k_proj, mha.v_proj)
    )
    return mha.out_proj(attend(q, k, v).transpose(1, 2).reshape(batch, tokens, width))


def in_blocks(mha, x, masked):
    q, k, v = (split_heads(proj(x), mha.num_heads) for proj in (mha.q_proj, mha.k_proj, mha.v_proj))
    return mha.out_proj(merge_heads(tiled_attention(q, k, v, 512, causal=masked)))


def ways(mha, x, masked):
    """Return {name: a call}; all give the same out."""
    mask = causal_mask(x.size(1), device=x.device) if masked else None
    theirs, hidden = variants.to_torch(mha), None if mask is None else ~mask
    return {
        BASE: lambda: by_hand(mha, functools.partial(F.scaled_dot_product_attention, attn_mask=mask), x),
        "fused": lambda: mha(x, mask=mask, need_weights=False)[0],
        "nn.MultiheadAttention": lambda: theirs(x, x, x, attn_mask=hidden, need_weights=False)[0],
        "reference": lambda: mha(x, mask=mask)[0],
        "tiled": lambda: in_blocks(mha, x, masked),
    }


def measure(calls, rounds):
    """Return {name: milliseconds}, each the median over rounds in which the ways take turns."""
    timers = {name: Timer("call()", globals={"call": call}) for name, call in calls.items()}
    runs = [{name: timer.timeit(1).median for name, timer in timers.items()} for _ in range(rounds)]
    return {name: 1000 * statistics.median(run[name] for run in runs) for name in calls}


@torch.no_grad()
def table(longest, d_model, heads, rounds, masked, device):
    """Print a line for each length and return {length: {name: ratio}}."""
    torch.manual_seed(0)
    mha, found, tokens = MultiHeadAttention(d_model, heads).eval().to(device), {}, 128
    print(f"{device}, d_model {d_model}, {heads} heads, {'causal mask' if masked else 'no mask'}, times {BASE}")
    while tokens <= longest:
        x = torch.randn(1, tokens, d_model).to(device)
        calls = ways(mha, x, masked)
        weight_bytes = 4 * heads * tokens**2
        if weight_bytes > 2**34:  # the reference makes them several times
            del calls["reference"]
        want = calls[BASE]()
        for name, call in calls.items():
            torch.testing.assert_close(call(), want, atol=2e-5, rtol=1e-4, msg=name)
        took = measure(calls, rounds)
        found[tokens] = {name: milliseconds / took[BASE] for name, milliseconds in took.items()}
        ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in found[tokens].items() if name != BASE)
        print(f"{tokens:6} {took[BASE]:9.2f} ms  {ratios}")
        tokens *= 2
    return found


def main():
    """Read the options and print the table of each device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longest", type=int)
    for name, value in (("--d-model", 512), ("--heads", 8), ("--rounds", 15)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--masked", action="store_true", help="with a causal mask")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table(options.longest or 4096, options.d_model, options.heads, options.rounds, options.masked, "cpu")
    if torch.cuda.is_available():
        table(options.longest or 32768, options.d_model, options.heads, options.rounds, options.masked, "cuda")


if __name__ == "__main__":
    main()
