"""Both layouts of RoPE against products of complex numbers, and the way from one to the other."""

import pytest
import torch
from rewriting import fails_with, numbers, refused, same, wrong_versions
from torch.nn import functional as F

from mha_course import positions
from mha_course.attention import MultiHeadAttention, split_heads
from mha_course.caching import GroupedQueryAttention

B, S, C, H, D = 2, 7, 24, 4, 6
PLACES = torch.tensor([0, 3, 4, 9, 100, 5000, 2])
DTYPES = (torch.float64, torch.float32)


def test_waves_are_those_of_the_formula():
    # with only float32, angles of late positions would be wrong
    for tokens, width in ((3000, C), (1, 2)):
        places = torch.arange(tokens, dtype=torch.float64)[:, None]
        angles = places / 10000.0 ** (torch.arange(width // 2, dtype=torch.float64) * 2 / width)
        encoding = positions.sinusoidal_encoding(tokens, width)
        same(encoding[:, 0::2], angles.sin(), torch.float32)
        same(encoding[:, 1::2], angles.cos(), torch.float32)


def test_a_default_device_changes_no_number():
    x = numbers(B, H, S, D)
    want = positions.rope(x, PLACES), positions.sinusoidal_encoding(S, C)
    with torch.device("meta"):  # every machine has it, and it holds no numbers
        got = positions.rope(x, PLACES.tolist()), positions.sinusoidal_encoding(S, C, device="cpu")
        assert positions.sinusoidal_encoding(S, C).is_meta
    assert all(map(torch.equal, got, want))


def test_neighbours_turn_as_complex_numbers():
    for dtype in DTYPES:
        x = numbers(B, H, S, D, dtype=dtype)
        for base in (10000.0, 50.0, 0.5):
            angles = PLACES.double()[:, None] * base ** (-torch.arange(0, D, 2).double() / D)
            pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
            want = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(
                -2
            )
            same(positions.rope_interleaved(x, PLACES, base), want, dtype)
        for turn in (positions.rope, positions.rope_interleaved):
            same(turn(x, PLACES), turn(x, PLACES, 10000.0), dtype)


def test_scores_depend_on_the_distance_alone():
    for turn in (positions.rope, positions.rope_interleaved):
        q, k = (numbers(1, H, 1, D, seed=seed).expand(-1, -1, S, -1) for seed in range(2))
        places = torch.arange(S)
        scores = turn(q, places) @ turn(k, places).mT
        same(turn(q, places + 3000) @ turn(k, places + 3000).mT, scores)
        for distance in range(-S + 1, S):
            diagonal = scores.diagonal(distance, -2, -1)
            same(diagonal, diagonal[..., :1].expand_as(diagonal))
        assert not torch.allclose(scores[..., 0, 1], scores[..., 1, 0], atol=1e-3)
        x = numbers(B, H, S, D)
        same(turn(x, PLACES).norm(dim=-1), x.norm(dim=-1))
        same(turn(x, [0] * S), x)


def test_orders_are_those_that_are_told():
    assert positions.to_interleaved(torch.arange(8)).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert positions.to_half_split(torch.arange(8)).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    for width in (2, 6, 10):
        x = numbers(B, S, width)
        assert torch.equal(positions.to_half_split(positions.to_interleaved(x)), x)
        assert torch.equal(positions.to_interleaved(positions.to_half_split(x)), x)


def test_weights_of_one_layout_work_in_the_other():
    x = numbers(B, S, C)
    for module, groups in (
        (MultiHeadAttention(C, H).double(), H),
        (GroupedQueryAttention(C, H, 2).double(), 2),
    ):
        projections = ((module.q_proj, H), (module.k_proj, groups))

        def scores(turn, move, projections=projections, groups=groups):
            q, k = (
                split_heads(F.linear(x, move(p.weight, n), move(p.bias, n)), n)
                for p, n in projections
            )
            return turn(q, PLACES) @ turn(k.repeat_interleave(H // groups, 1), PLACES).mT

        want = scores(positions.rope_interleaved, lambda weight, num_heads: weight)
        assert not torch.allclose(
            scores(positions.rope, lambda weight, num_heads: weight), want, atol=1e-3
        )
        same(scores(positions.rope, positions.projection_to_half_split), want)


# Which test must catch each wrong line: {the test: {what is wrong: (function, old, new)}}.
WRONG = {
    test_neighbours_turn_as_complex_numbers: {
        "not brought back": (positions.rope_interleaved, "to_interleaved(rope", "(rope"),
        "base forgotten": (positions.rope_interleaved, ", positions, base))", ", positions))"),
    },
    test_scores_depend_on_the_distance_alone: {
        "not turned": (positions.rope, "positions[:, None] * frequencies", "0 * frequencies"),
        "moved, not turned": (
            positions.rope,
            "return torch.cat(",
            "return x + positions[:, None] + 0 * torch.cat(",
        ),
    },
    test_orders_are_those_that_are_told: {
        "the wrong order": (positions.to_interleaved, "(2, -1)", "(-1, 2)"),
        "the wrong order back": (positions.to_half_split, "(-1, 2)", "(2, -1)"),
    },
    test_weights_of_one_layout_work_in_the_other: {
        "rows across heads": (
            positions.projection_to_half_split,
            "weight.unflatten(0, (num_heads, -1))",
            "weight.unflatten(0, (1, -1))",
        )
    },
}


@pytest.mark.filterwarnings("ignore")
@wrong_versions(WRONG)
def test_wrong_lines_disagree(check, edit):
    assert fails_with(check, *edit)


ERRORS = {
    "sinusoidal_encoding: seq_len must be a positive int. expected seq_len >= 1, got seq_len=2.5":
        lambda: positions.sinusoidal_encoding(2.5, C),
    "sinusoidal_encoding: d_model must be even, since channels go in pairs. expected d_model % 2 "
    "== 0, d_model >= 2, got d_model=23, fix: d_model=24": lambda: positions.sinusoidal_encoding(S,
        23),
    "rope: D must be even, since channels go in pairs. expected D % 2 == 0, D >= 2, got D=5, fix: "
    "D=6":
        lambda: positions.rope(torch.ones(B, H, S, 5), PLACES),
    "rope: x must have 4 axes. expected (B, H, S, D), got (2, 7, 24), fix: x.unsqueeze(0), a "
    "batch of one":
        lambda: positions.rope(torch.ones(B, S, C), PLACES),
    "rope: positions has the wrong S. expected (S=7), got (S=0)":
        lambda: positions.rope(torch.ones(B, H, S, D), None),
    "rope: base must be positive. expected base > 0, got base=0":
        lambda: positions.rope(torch.ones(B, H, S, D), PLACES, 0),
    "to_half_split: D must be even, since channels go in pairs. expected D % 2 == 0, D >= 2, got "
    "D=1, fix: D=2":
        lambda: positions.to_half_split(torch.ones(1)),
    "to_interleaved: x must be a tensor. expected a torch.Tensor, got list, fix: "
    "torch.as_tensor(x)":
        lambda: positions.to_interleaved([1.0, 2.0]),
    "projection_to_half_split: num_heads must divide H*D. expected H*D % num_heads == 0, got "
    "H*D=24, num_heads=5, fix: num_heads=4 or 6, or "
    "H*D=20 or 25": lambda: positions.projection_to_half_split(torch.ones(C, C), 5),
    "projection_to_half_split: D must be even, since channels go in pairs. expected D % 2 == 0, D "
    ">= 2, got D=3, fix: D=4": lambda: positions.projection_to_half_split(torch.ones(C, C), 8),
    "projection_to_half_split: weight must be floating point. expected a float dtype, got "
    "torch.int64, fix: weight.float()": lambda: positions.projection_to_half_split(torch.ones(C,
        C).long(), 4),
    "projection_to_half_split: weight must have 2 axes. expected (H*D, C), got (2, 24, 24)":
        lambda: positions.projection_to_half_split(torch.ones(2, C, C), 4),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_and_how(message):
    refused(ERRORS[message], message)
