"""Faulty attention: each mistake runs and trains, each probe can fail, and what ships was measured
so.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from mha_course.attention import fused_attention, merge_heads
from mha_course.caching import KVCache, repeat_kv
from mha_course.experiments.faulty_attention import (
    INNOCENT,
    PAIRS,
    SINGLE,
    CausalAttention,
    faulty,
    methods,
)
from mha_course.lessons.l19_bug_hunt import costs as bug_hunt
from mha_course.lessons.l19_bug_hunt import probes
from mha_course.models import seeded
from mha_course.models.language import language_loss
from mha_course.positions import rope

RECORDS = bug_hunt.load()
KEYS = {bug_hunt.RIGHT, *SINGLE, *map("+".join, PAIRS)}


def module(*names, sizes=(24, 4, 2)):
    with seeded(1):
        return faulty(*names)(*sizes).double().eval()


def test_the_right_one_is_what_pytorch_computes():
    ours, x = module(sizes=(40, 4, 2)), torch.randn(3, 7, 40, dtype=torch.float64)
    mask = torch.arange(7) >= torch.tensor([[0], [2], [3]])  # (3, 7)
    q, k, v = (F.linear(x, p.weight, p.bias) for p in (ours.q_proj, ours.k_proj, ours.v_proj))
    q, k, v = (
        q.view(3, 7, 4, 10).transpose(1, 2),
        k.view(3, 7, 2, 10).transpose(1, 2),
        v.view(3, 7, 2, 10),
    )
    q, k, v = rope(q, range(7)), repeat_kv(rope(k, range(7)), 4), repeat_kv(v.transpose(1, 2), 4)
    seen = torch.ones(7, 7, dtype=torch.bool).tril() & mask[:, None, None]
    for given, allowed in ((None, None), (mask, seen)):
        want = ours.out_proj(
            merge_heads(fused_attention(q, k, v, allowed, is_causal=allowed is None))
        )
        assert torch.allclose(ours(x, given), want, atol=1e-12)


def test_the_right_one_decodes_in_chunks_as_at_once():
    ours, x, cache = module(), probes.tokens(module(), 2, 9), KVCache()
    parts = [ours(x[:, a:b], None, cache) for a, b in ((0, 4), (4, 6), (6, 9))]
    assert torch.allclose(torch.cat(parts, 1), ours(x), atol=1e-12)


@pytest.mark.parametrize("sizes", [(24, 4, 2), (48, 6, 2), (60, 6, 3)], ids=str)
@pytest.mark.parametrize("name", probes.PROBES)
def test_a_probe_passes_right_modules_and_fails_wrong_ones(name, sizes):
    assert [probes.PROBES[name](module(*names, sizes=sizes)) for names in ((), (INNOCENT,))] == [
        "",
        "",
    ]
    assert any(probes.PROBES[name](module(wrong)) for wrong in SINGLE)


@pytest.mark.parametrize("name", SINGLE)
def test_a_mistake_is_told_by_a_probe_and_replaces_one_method(name):
    assert bool(probes.findings(module(name))) == (name != INNOCENT)
    assert len(methods(name)) == (3 if name == INNOCENT else 1)
    assert set(methods(name)) <= set(vars(CausalAttention))


@pytest.mark.parametrize(
    ("name", "probe", "says"),
    [
        ("scale-missing", "divisor", "the scores are divided by 1"),
        ("scale-d-model", "divisor", "the scores are divided by sqrt(C)"),
        ("scale-no-root", "divisor", "the scores are divided by D"),
        ("scale-by-length", "divisor", "the scores are divided by sqrt(S)"),
        ("causal-leaks-next", "leaks", "an output feels the next token"),
        ("mask-after-softmax", "leaks", "an output feels all later tokens"),
        (
            "masks-or-instead-of-and",
            "leaks",
            "an output feels all later tokens once there is a mask, be it one that hides nothing",
        ),
        ("sees-itself-alone", "cached", "with a cache an output feels its own token alone"),
        ("decode-first-key-only", "cached", "with a cache an output feels the first token alone"),
        ("causal-missing", "leaks", "an output feels all later tokens"),
        ("keys-detached", "gradients", "no gradient reaches k_proj"),
        ("rope-on-queries-only", "gradients", "no gradient reaches k_proj.bias"),
        ("key-value-swapped", "one_token", "what one token gets is made by k_proj"),
        ("kv-repeat-interleaved-wrongly", "one_token", "in another order, by whole heads"),
        ("kv-repeat-interleaved-wrongly", "exchange", "with its heads in another order"),
        ("masked-row-nan", "empty_rows", "a token that sees nothing makes NaN"),
        ("masked-row-uniform", "half", "it stops in half precision"),
    ],
)
def test_what_a_probe_says_is_what_was_done(name, probe, says):
    assert probes.PROBES[probe](module(name)).endswith(says)


def test_everything_was_measured():
    assert set(RECORDS) == KEYS
    for record in RECORDS.values():
        assert len(record.losses) == bug_hunt.STEPS // bug_hunt.EVERY
        assert record.losses[-1] < record.losses[0] / 2  # it trains


def test_what_never_runs_in_training_changes_no_loss():
    best = RECORDS[bug_hunt.RIGHT]
    for name in (
        "mask-inverted",
        "masks-or-instead-of-and",
        "mask-first-batch-only",
        "positions-ignored",
    ):
        assert RECORDS[name].losses == best.losses
        assert RECORDS[name].in_use > 1.1 * best.in_use
    assert best.at_once == best.in_use == best.loaded == RECORDS[INNOCENT].in_use


def test_reading_word_by_word_costs_the_right_model_nothing():
    model, ids, seen = bug_hunt.new_model().eval(), bug_hunt.fresh()[:100], []
    with torch.no_grad():
        assert bug_hunt.loss_at_once(model, ids) == pytest.approx(
            language_loss(model, ids).item(), abs=6e-4
        )
        model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
        assert bug_hunt.loss_at_once(model, ids)
        assert seen == [64, 36]
        assert bug_hunt.loss_in_use(model, ids) == pytest.approx(
            bug_hunt.loss_at_once(model, ids), abs=2e-3
        )
        assert bug_hunt.loss_in_use(bug_hunt.new_model("masked-row-nan").eval(), ids) is None
        assert (
            bug_hunt.loss_in_use(bug_hunt.new_model("sees-itself-alone").eval(), ids) is None
        )  # it stops


@pytest.mark.train
@pytest.mark.parametrize("name", ["right", "mask-after-softmax", "kv-repeat-interleaved-wrongly"])
def test_what_ships_is_what_training_gives(name):
    """Within what another processor changes: figures of training differ in their last digits."""
    model, losses = bug_hunt.train_model(*() if name == bug_hunt.RIGHT else (name,))
    record = RECORDS[name]
    assert math.fsum(losses[-10:]) / 10 == pytest.approx(record.losses[-1], rel=0.1)
    with torch.no_grad():
        assert bug_hunt.loss_at_once(model, bug_hunt.fresh()) == pytest.approx(
            record.at_once, rel=0.15
        )
        assert bug_hunt.loss_in_use(model, bug_hunt.fresh()) == pytest.approx(
            record.in_use, rel=0.3
        )
