"""What a trace asks about numbers: the scale of scores, triangles of masks, orders of copies."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.tracing import trace

B, T, S, H, D = 2, 5, 7, 3, 4
C = H * D
ROOT = D**0.5


def attention(scale=lambda q: q / ROOT, scaled=lambda s: s, masked=lambda s: s, after=lambda w: w):
    """Return attention with some of its steps replaced."""

    def attend(q, k, v):
        scores = masked(scaled(scale(q) @ k.mT))
        weights = after(scores.softmax(-1))
        return weights @ v

    return attend


def kernel(before=lambda q: q, **kwargs):
    return lambda q, k, v: F.scaled_dot_product_attention(before(q), k, v, **kwargs)


def asked(fn, queries=T, **sizes):
    """Return the ids that a trace asks about, and the operations where it does."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, n, D, generator=generator) for n in (queries, S, S))
    found = trace(fn, q, k, v, axes=["B H T D", "B H S D", "B H S D"], sizes=sizes)
    assert found.warnings == ()
    return [(step.question.partition(":")[0], step.op) for step in found.questions]


def keep(q):
    return q


RIGHT = {
    "before the product": attention(),
    "half on each side": lambda q, k, v: attention(lambda q: q / ROOT**0.5)(q, k / ROOT**0.5, v),
    "of the scores": attention(keep, lambda s: D**-0.5 * s),
    "by a tensor": attention(keep, lambda s: s / torch.tensor(ROOT)),
    "in place": attention(keep, lambda s: s.div_(ROOT)),
    "not at all": attention(keep),
    "before a norm": attention(lambda q: F.layer_norm(q * C**-0.5, (D,))),
    "of unit vectors": attention(lambda q: F.normalize(q, dim=-1), lambda s: s * ROOT),
    "of unit vectors by hand": attention(
        lambda q: q / q.norm(dim=-1, keepdim=True), lambda s: s * ROOT
    ),
    "by hand": lambda q, k, v: ((e := (q @ k.mT / ROOT).exp()) / e.sum(-1, keepdim=True)) @ v,
    "of the kernel": kernel(),
    "given to the kernel": kernel(scale=D**-0.5),
    "learned": attention(keep, lambda s: s * nn.Parameter(torch.ones(H, 1, 1))),
}
WRONG = {
    "d_model": (attention(keep, lambda s: s / C**0.5), "scale-d-model", "div"),
    "d_model, of queries": (attention(lambda q: q * C**-0.5), "scale-d-model", "mul"),
    "no root": (attention(keep, lambda s: s / D), "scale-no-root", "div"),
    "twice": (attention(scaled=lambda s: s / ROOT), "scale-no-root", "div"),
    "in place": (attention(keep, lambda s: s.mul_(C**-0.5)), "scale-d-model", "mul_"),
    "inverted": (attention(keep, lambda s: s / D**-0.5), "scale-inverted", "div"),
    "after softmax": (attention(keep, after=lambda w: w / ROOT), "scale-after-softmax", "div"),
    "twice, in the kernel": (kernel(lambda q: q / ROOT), "scaled-before-the-kernel", "div"),
    "given to the kernel": (
        kernel(scale=C**-0.5), "scale-d-model", "scaled_dot_product_attention"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fn", RIGHT.values(), ids=RIGHT)
def test_scales_that_are_right(fn):
    assert asked(fn) == []


@pytest.mark.parametrize(("fn", "mistake", "op"), WRONG.values(), ids=WRONG)
def test_scales_by_another_size_are_asked_about_where_they_are_made(fn, mistake, op):
    assert asked(fn) == [(mistake, op)]


def triangle(diagonal, *, upper=False, queries=T):
    full = torch.ones(queries, S, dtype=torch.bool)
    return full.triu(diagonal) if upper else full.tril(diagonal)


LAST = S - T  # the queries are the last of the tokens
MASKS = {
    "causal": (triangle(LAST), ""),
    "window": (triangle(LAST) & triangle(LAST - 2, upper=True), ""),
    "none": (triangle(S), ""),
    "future": (triangle(LAST + 1, upper=True), "mask-inverted"),
    "self and future": (triangle(LAST, upper=True), "mask-inverted"),
    "next": (triangle(LAST + 1), "causal-leaks-next"),
    "past alone": (triangle(LAST - 1), "causal-hides-self"),
    "top left": (triangle(0), "causal-top-left"),
}


@pytest.mark.parametrize(("seen", "mistake"), MASKS.values(), ids=MASKS)
def test_triangles_of_visible_keys(seen, mistake):
    low = torch.zeros(T, S).masked_fill(~seen, -10_000)
    ways = {
        "softmax": attention(masked=lambda s: s.masked_fill(~seen, float("-inf"))),
        "add": attention(masked=lambda s: s + low),
        "kernel": kernel(attn_mask=seen),
        "kernel, added": kernel(attn_mask=low),
    }
    for name, fn in ways.items():
        op = "scaled_dot_product_attention" if "kernel" in name else "softmax"
        assert asked(fn) == ([(mistake, op)] if mistake else []), name


ONES = triangle(LAST).float()
NOT_HIDING = {
    "mask-multiplied": attention(masked=lambda s: s * ONES),
    "mask-added-as-number": attention(masked=lambda s: s + ONES),
    "mask-added-as-number in the kernel": kernel(attn_mask=ONES),
    "softmax-twice": attention(after=lambda w: w.softmax(-1)),
}


@pytest.mark.parametrize("name", NOT_HIDING)
def test_a_triangle_of_ones_hides_nothing_and_one_softmax_is_enough(name):
    (found,) = asked(NOT_HIDING[name])
    assert found[0] == name.split()[0]


@pytest.mark.parametrize("fill", [float("-inf"), -1e9])
def test_weights_are_not_hidden_as_scores_are(fill):
    seen = triangle(LAST)
    x = torch.randn(B, H, S, D)
    for value, count in ((fill, 1), (0.0, 0)):
        fn = attention(after=lambda w, value=value: w.masked_fill(~seen, value))
        found = trace(fn, x[:, :, :T], x, x, axes=["B H T D", *["B H S D"] * 2])
        assert [step.warning.partition(":")[0] for step in found.warnings] == [
            "mask-after-softmax"
        ] * count


def test_a_learned_number_is_read_in_silence():
    scale = nn.Parameter(torch.tensor(1.0))
    found = trace(lambda q: q * scale, torch.randn(B, S, C), axes="B S C")
    assert (found.notes, found.questions) == ((), ())


def test_true_hides_in_the_mask_of_torchs_module():
    module = nn.MultiheadAttention(C, H, batch_first=True)
    x = torch.randn(B, S, C)
    square = triangle(0, queries=S)
    for mask, count in ((~square, 0), (square, 1)):
        found = trace(module, x, x, x, attn_mask=mask, axes="B S C")
        assert [step.question.partition(":")[0] for step in found.questions] == [
            "mask-inverted"
        ] * count


def test_tables_without_numbers_or_with_few_are_not_read():
    assert asked(kernel(attn_mask=triangle(S, queries=2)), queries=2) == []
    fn = attention(masked=lambda s: s.masked_fill(~triangle(0).to(s.device), float("-inf")))
    q, k, v = (torch.empty(B, H, n, D, device="meta") for n in (T, S, S))
    found = trace(fn, q, k, v, axes=["B H T D", *["B H S D"] * 2])
    assert (found.questions, found.notes) == ((), ())


def by_index(kv_head):
    return lambda x: x[:, [kv_head(head) for head in range(6)]]


def by_head(kv_head):
    """Attend head by head."""
    return lambda q, k, v: torch.stack(
        [attention()(q[:, h], k[:, kv_head(h)], v[:, kv_head(h)]) for h in range(6)], 1
    )


def by_groups(*cut):
    """Cut the query heads, and let the KV heads meet the axis of two."""
    new = cut.index(3) + 1

    def attend(q, k, v):
        return attention()(q.unflatten(1, cut), k.unsqueeze(new), v.unsqueeze(new)).flatten(1, 2)

    return attend


def repeated(repeat, mix=None):
    return lambda q, k, v: (mix or attention())(q, repeat(k), repeat(v))


def in_turn(q, k, v):
    """Tile the KV heads, and bring the query heads into the same order, and back."""
    q = q.unflatten(1, (2, 3)).transpose(1, 2).flatten(1, 2)
    context = repeated(lambda x: x.repeat(1, 3, 1, 1))(q, k, v)
    return context.unflatten(1, (3, 2)).transpose(1, 2).flatten(1, 2)


# Six query heads that read two KV heads as 0 1 0 1 0 1, and as 0 0 0 1 1 1.
MIXED = [
    *(repeated(lambda x: x.repeat(1, 3, 1, 1), mix) for mix in (attention(), kernel())),
    repeated(lambda x: torch.cat([x] * 3, 1)),
    repeated(lambda x: torch.stack([x] * 3, 1).flatten(1, 2)),
    repeated(by_index(lambda h: h % 2)),
    repeated(lambda x: x[:, torch.arange(6) % 2]),
    repeated(lambda x: x.index_select(1, torch.arange(6) % 2)),
    by_head(lambda h: h % 2),
    by_groups(3, 2),
    lambda q, k, v: torch.cat([attention()(part, k, v) for part in q.chunk(3, 1)], 1),
]
IN_GROUPS = [
    *(repeated(lambda x: x.repeat_interleave(3, dim=1), mix) for mix in (attention(), kernel())),
    repeated(lambda x: torch.stack([x] * 3, 2).flatten(1, 2)),
    repeated(by_index(lambda h: h // 3)),
    repeated(lambda x: x[:, torch.arange(6) // 3]),
    repeated(lambda x: x.index_select(1, torch.arange(6) // 3)),
    by_head(lambda h: h // 3),
    by_groups(2, 3),
    lambda q, k, v: torch.stack([attention()(q[:, n::3], k, v) for n in range(3)], 2).flatten(1, 2),
    in_turn,
]


@pytest.mark.parametrize(("programs", "asked"), [(MIXED, True), (IN_GROUPS, False)])
def test_query_heads_that_read_another_kv_head_than_their_group(programs, asked):
    q = torch.randn(B, 6, T, D)
    k = torch.randn(B, 2, S, D)
    axes = ["B H T D", "B H_kv S D", "B H_kv S D"]
    expected = IN_GROUPS[0](q, k, k)
    for program in programs:
        assert torch.allclose(program(q, k, k), expected, atol=1e-5) != asked
        found = trace(program, q, k, k * 1, axes=axes)
        names = {step.question.partition(":")[0] for step in found.questions}
        assert (names, found.warnings) == (
            {"kv-repeat-interleaved-wrongly"} if asked else set(),
            (),
        )


def halves(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def neighbours(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)


def block(angles):
    return torch.cat([angles, angles], dim=-1)


def tiles(angles):
    return angles.repeat(1, 2)


def pairs(angles):
    return angles.repeat_interleave(2, dim=-1)


@pytest.mark.parametrize(
    ("turn", "spread", "count"),
    [
        *((halves, spread, 0) for spread in (block, tiles)),
        (neighbours, pairs, 0),
        (halves, pairs, 1),
        *((neighbours, spread, 1) for spread in (block, tiles)),
    ],
)
def test_angles_of_one_layout_meet_the_rotation_of_the_other(turn, spread, count):
    def rotate(q):
        speeds = 100 ** -(torch.arange(0, 6, 2) / 6)
        angles = spread(torch.outer(torch.arange(T), speeds))
        return q * angles.cos() + turn(q) * angles.sin()

    found = trace(rotate, torch.randn(B, H, T, 6), axes="B H T D")
    names = [step.question.partition(":")[0] for step in found.questions]
    assert names == ["rope-layout-mixed"] * count
