"""Programs that get a remark, each with a similar right one that must get none."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.tracing import trace

B, S, H, D = 2, 6, 3, 4
C = H * D
TEXT = torch.randn(B, S, C), "B S C"
APART = torch.arange(S)[:, None] - torch.arange(S) + S - 1
SQUARE = torch.randn(B, 4, 4, D), "B H S D"
HEADS = torch.randn(B, H, S, D), "B H S D"


def kept(x):
    found = []
    found.extend(map(torch.relu, x))
    return found


def hooked(x):
    found = []
    layer = nn.Linear(C, C)
    layer.register_forward_hook(lambda *call: found.append(call[-1]))
    layer(x)
    return found[0] * 2


def masked_for_nothing(q):
    scores = q @ q.mT
    scores.masked_fill(torch.ones(S, S).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ q


def masked_in_place(q):
    scores = q @ q.mT
    scores.masked_fill_(torch.ones(S, S).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ q


def added_for_nothing(x):
    x + 1
    return x


def dropped_for_nothing(x):
    nn.Dropout(0.5)(x)
    return x


def compared(x):
    torch.testing.assert_close(x, x)
    F.relu(x.clone(), inplace=True)
    x.clone().unsqueeze(0).zero_()
    return x


def tokens_first(x):
    q = nn.Linear(C, C)(x).unflatten(-1, (H, D))
    weights = torch.einsum("tbhd,sbhd->tsbh", q, q).softmax(1)
    return torch.einsum("tsbh,sbhd->tbhd", weights, q).flatten(2)


def tokens_first_by_bmm(x):
    q = nn.Linear(C, C)(x).view(x.size(0), -1, D).transpose(0, 1)
    return ((q @ q.mT).softmax(-1) @ q).transpose(0, 1).reshape(x.shape)


def tokens_first_in_one_head(x):
    q = x.transpose(0, 1)
    return (q @ q.mT).softmax(-1) @ q


def pooled_over_the_batch(x):
    return (nn.Linear(C, 1)(x).softmax(0) * x).sum(1)


def pooled_over_the_flat_batch(x):
    return (nn.Linear(C, 1)(x).squeeze(-1).softmax(0)[..., None] * x).sum(1)


def pooled(x):
    return (nn.Linear(C, 1)(x).softmax(1) * x).sum(1)


def contrasted(x):
    images, texts = x[:, 0], x[:, 1]
    return (images @ texts.T).log_softmax(0)


def pooled_over_one(x):
    return (nn.Linear(C, 1)(x).softmax(-1) * x).sum(1)


def in_parts_on_devices(x):
    heads = nn.Linear(32, 32)(x).view(B, S, 4, 8).unflatten(-1, (2, 4)).flatten(2, 3)
    return nn.Linear(32, 32)(heads.transpose(1, 2).transpose(1, 2).flatten(2))


def in_fused_parts_on_devices(x):
    q, k, v = nn.Linear(32, 96)(x).view(B, S, 4, 24).chunk(3, -1)
    q, k, v = (t.unflatten(-1, (2, 4)).flatten(2, 3).transpose(1, 2) for t in (q, k, v))
    return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)


def by_width_first(x):
    return nn.Linear(32, 32)(x).view(B, S, 4, 8).transpose(1, 2)


def added(q, k, dim):
    scores = nn.Linear(C, 1)(torch.tanh(q[:, :, None] + k[:, None]))
    return scores.softmax(dim).squeeze(-1) @ k


def one_key(x):
    return (x @ x[:, :1].mT).softmax(-1) @ x[:, :1]


def summed(q, dim):
    outer = torch.einsum("bthd,bthe->bthde", q, q).cumsum(1)
    over = torch.einsum("bthd,bthde->bthe", q, outer)
    return over / (q * q.cumsum(dim)).sum(-1, keepdim=True)


def near(scale):
    """Return attention whose scores get less with the distance, in each head by its own slope."""

    def attend(q, slopes):
        far = (torch.arange(q.size(2)) - torch.arange(q.size(2))[:, None]).abs()
        return (q @ q.mT - scale(slopes) * far).softmax(-1) @ q

    return attend


def biased(move):
    return lambda q, table: (q @ q.mT + move(table)).softmax(-1) @ q


def placed(move):
    return lambda x, table: x + move(table, x)


def from_a_table(read):
    """Return attention with a bias that is looked up head by head."""

    def attend(x, table, index):
        q = nn.Linear(C, C)(x).unflatten(-1, (H, D)).transpose(1, 2)
        return (q @ q.mT + read(table[index.flatten()])).softmax(-1) @ q

    return attend


def copied(move):
    return lambda q, k: torch.zeros_like(q).copy_(q).copy_(move(k))


def spelled(scores, context):
    def attend(q):
        weights = torch.einsum(scores, q, q).softmax(-1)
        return torch.einsum(context, weights, q)

    return attend


def masked_late(hide):
    return lambda q, mask: hide((q @ q.mT).softmax(-1), mask) @ q


def written_late(weights, mask):
    weights = weights.clone()
    weights[mask.expand_as(weights) == 0] = 0
    return weights


def written_early(q, mask):
    scores = q @ q.mT
    scores[mask.expand_as(scores) == 0] = -torch.inf
    return scores.softmax(-1).mul_(mask) @ q


def renormalised(weights, mask):
    weights = weights * mask
    return weights / weights.sum(-1, keepdim=True)


def normalised_by_subtracting(q):
    scores = q @ q.mT
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ q


def normalised_by_adding(q):
    scores = q @ q.mT
    return (scores + -scores.logsumexp(-1, keepdim=True)).exp() @ q


def padded(place):
    """Return attention that hides the last words, at a place that it makes for itself."""

    def attend(q):
        words = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]]).bool()
        return (q @ q.mT).masked_fill(place(words), -1e9).softmax(-1) @ q

    return attend


def averaged_weights(average):
    return lambda q: average((q @ q.mT).softmax(-1)) @ q


def masked_twice(q, mask):
    weights = (q @ q.mT).masked_fill(mask == 0, -torch.inf).softmax(-1)
    return weights.masked_fill(mask == 0, 0.0) @ q


CAUSAL = torch.ones(S, S).tril()
KEYS = torch.tensor([1.0, 1, 1, 1, 0, 0]).expand(B, 1, 1, S)
TIMES = masked_late(lambda w, m: w * m)
LATE = [
    TIMES,
    masked_late(lambda w, m: w.masked_fill(m == 0, 0.0)),
    masked_late(lambda w, m: torch.where(m > 0, w, 0)),
    masked_late(lambda w, m: w.mul_(m > 0)),
    masked_late(lambda w, m: w - w * (m == 0)),
    masked_late(written_late),
]
LATE_TRIANGLES = [masked_late(lambda w, m: w.tril()), masked_late(lambda w, m: w.tril_())]


# The id, the programs that get it, the right ones, and their tensors and axes in turn.
TWINS = [
    ("result-discarded", [added_for_nothing, dropped_for_nothing], [kept, hooked, compared], TEXT),
    ("result-discarded", [masked_for_nothing], [masked_in_place], HEADS),
    ("attention-over-batch", [tokens_first, tokens_first_by_bmm, tokens_first_in_one_head],
     [contrasted], TEXT),
    ("softmax-over-batch", [pooled_over_the_batch, pooled_over_the_flat_batch], [pooled], TEXT),
    ("attention-over-batch", [], [tokens_first, tokens_first_by_bmm], (TEXT[0], "S B C")),
    ("softmax-over-one", [pooled_over_one, lambda x: added(x[:, :2], x, -1)],
     [pooled, one_key, lambda x: added(x[:, :2], x, 2)], TEXT),
    ("runs-over-heads", [F.normalize, lambda q: q.cummax(1)[0]],
     [lambda q: F.normalize(q, dim=-1), lambda q: q.cumsum(-2)], HEADS),
    ("runs-over-heads", [lambda q: summed(q, -2)], [lambda q: summed(q, 1)],
     (HEADS[0].transpose(1, 2), "B S H D")),
    ("heads-innermost", [by_width_first], [in_parts_on_devices, in_fused_parts_on_devices],
     (torch.randn(B, S, 32), "B S C")),
    ("broadcast-of-different-axes", [near(lambda s: s)], [near(lambda s: s[:, None, None])],
     (*SQUARE, torch.rand(4), "H")),
    ("broadcast-of-different-axes", [biased(lambda t: t)], [biased(lambda t: t.permute(2, 0, 1))],
     (*SQUARE, torch.rand(4, 4, 4), "T S H")),
    ("broadcast-of-different-axes", [placed(lambda t, x: t[: x.size(0)].unsqueeze(1))],
     [placed(lambda t, x: t[: x.size(1)])], (*TEXT, torch.randn(S, C), "S C")),
    ("view-without-transpose", [from_a_table(lambda t: t.view(H, S, S))],
     [from_a_table(lambda t: t.view(S, S, H).permute(2, 0, 1))],
     (*TEXT, torch.randn(2 * S - 1, H), "R H", APART, "T S")),
    ("joined-different-axes",
     [lambda q, k: torch.cat([q, k], 2), lambda q, k: torch.stack([q, k]), copied(lambda k: k)],
     [lambda q, k: torch.cat([q, k.transpose(1, 2)], 2), copied(lambda k: k.transpose(1, 2)),
      lambda q, k: torch.stack([q, k.transpose(1, 2)])],
     (*SQUARE, torch.randn(B, 4, 4, D), "B S H D")),
    ("summed-alone", [spelled("bhtd,bhse->bhts", "bhts,bhsd->bhtd"),
                      spelled("bhtd,bhsd->bhts", "bhtu,bhsd->bhtd")],
     [spelled("bhtd,bhsd->bhts", "bhts,bhsd->bhtd")], HEADS),
    ("mask-after-softmax", LATE + LATE_TRIANGLES,
     [masked_late(renormalised), masked_twice, written_early], (*HEADS, CAUSAL, "T S")),
    ("mask-after-softmax", LATE, [masked_late(renormalised)], (*HEADS, KEYS, "B 1 1 S")),
    ("mask-after-softmax", [], [TIMES], (*HEADS, torch.arange(H)[:, None, None], "H 1 1")),
    ("mask-after-softmax", [], [TIMES], (*HEADS, (torch.rand(S, S) > 0.3) * 1.0, "T S")),
    ("mask-on-queries", [padded(lambda words: words[:, None, :, None])],
     [padded(lambda words: words[:, None, None]), normalised_by_subtracting,
      normalised_by_adding], HEADS),
    ("heads-averaged", [averaged_weights(lambda w: w.mean(1, keepdim=True)),
                        averaged_weights(lambda w: w.mean(1).unsqueeze(1))],
     [averaged_weights(lambda w: w), lambda q: (q @ q.mT).softmax(-1).mean(1)], HEADS),
]  # fmt: skip


def remarks(fn, given, sizes):
    torch.manual_seed(0)
    found = trace(fn, *given[::2], axes=list(given[1::2]), sizes=sizes)
    return [
        (step.warning or step.question).partition(":")[0]
        for step in found.steps
        if step.warning or step.question
    ]


@pytest.mark.parametrize(("mistake", "wrong", "right", "given"), TWINS)
def test_a_mistake_gets_a_remark_and_its_right_twin_gets_none(mistake, wrong, right, given):
    sizes = {"H": given[0].shape[-1] // D} if given[1].endswith("C") else {}
    for fn in wrong:
        assert {*remarks(fn, given, sizes)} == {mistake}, fn
    for fn in right:
        assert remarks(fn, given, sizes) == [], fn
