"""Faulty attention: each mistake runs and trains, each probe can fail, shipped numbers hold."""

import pytest
import torch
from torch.nn import functional as F

from mha_course.attention import fused_attention, merge_heads
from mha_course.caching import KVCache, repeat_kv
from mha_course.errors import ShapeError
from mha_course.experiments.faulty_attention import (
    INNOCENTS,
    MADE,
    SINGLE,
    CausalAttention,
    faulty,
    methods,
)
from mha_course.lessons.l19_bug_hunt import costs, probes
from mha_course.models import seeded
from mha_course.models.language import language_loss
from mha_course.positions import rope

RECORDS = costs.load()


def module(*names, sizes=(24, 4, 2)):
    with seeded(1):
        return faulty(*names)(*sizes).double().eval()


def test_the_right_one_is_what_pytorch_computes():
    ours, x = module(sizes=(40, 4, 2)), torch.randn(3, 7, 40, dtype=torch.float64)
    mask = torch.arange(7) >= torch.tensor([[0], [2], [3]])  # (3, 7)
    q, k, v = (F.linear(x, p.weight, p.bias) for p in (ours.q_proj, ours.k_proj, ours.v_proj))
    q = q.view(3, 7, 4, 10).transpose(1, 2)
    k = k.view(3, 7, 2, 10).transpose(1, 2)
    v = v.view(3, 7, 2, 10)
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


def test_a_window_and_packed_texts_are_what_masks_make_of_them():
    ours, x = module(), probes.tokens(module())
    texts = torch.tensor([[1, 1, 1, 1, 2, 2, 2], [1, 1, 2, 2, 2, 3, 3]])
    place = torch.arange(7)
    back = place[:, None] - place  # (S, S)
    near = (back >= 0) & (back < 3) & (texts[:, :, None] == texts[:, None])[:, None]  # (B, 1, S, S)
    q, k, v = ours.rotate(*ours.project(x), 0)
    want = ours.out_proj(merge_heads(fused_attention(q, k, v, near)))
    ours.window = 3
    assert torch.allclose(ours(x, texts=texts), want, atol=1e-12)
    cache = KVCache()
    parts = [ours(x[:, :4], None, cache, texts[:, :4]), ours(x[:, 4:], None, cache, texts)]
    assert torch.allclose(torch.cat(parts, 1), want, atol=1e-12)


@pytest.mark.parametrize("sizes", [(24, 4, 2), (48, 6, 2), (60, 6, 3)], ids=str)
@pytest.mark.parametrize("name", probes.PROBES)
def test_a_probe_passes_right_modules_and_fails_wrong_ones(name, sizes):
    probe = probes.PROBES[name]
    for names in ((), *((name,) for name in INNOCENTS)):
        assert not probe(module(*names, sizes=sizes)).finds
    assert any(probe(module(wrong)).finds for wrong in SINGLE)


@pytest.mark.parametrize("name", MADE)
def test_a_mistake_is_told_by_a_probe_and_replaces_one_method(name):
    assert any(probe(module(name)).finds for probe in probes.PROBES.values()) == (name in SINGLE)
    assert len(methods(name)) == (3 if name == "no-mistake/shifted" else 1)
    assert set(methods(name)) <= set(vars(CausalAttention))


@pytest.mark.parametrize(
    ("name", "call", "gives"),
    [
        ("scale-missing", "divisor(module, 1)", "0"),
        ("scale-d-model", "divisor(module, C ** 0.5)", "0"),
        ("scale-no-root", "divisor(module, D)", "0"),
        ("scale-by-length", "divisor(module, 7 ** 0.5)", "0"),
        ("causal-leaks-next", "leaks(module)", "34 of 49"),
        ("mask-after-softmax", "leaks(module)", "49 of 49"),
        ("masks-or-instead-of-and", "leaks(module)", "49 of 49"),
        ("mask-inverted", "leaks(module)", "0 of 49"),
        ("sees-itself-alone", "cached_leaks(module)", "16 of 49"),
        ("keys-detached", "gradients(module)", "2 of 8"),
        ("rope-on-queries-only", "gradients(module)", "1 of 8"),
        ("key-value-swapped", 'merged(module, "keys")', "0"),
        ("output-projection-missing", "merged(module)", "0"),
        ("rope-on-values", 'merged(module, "values sorted")', "0"),
        ("kv-repeat-interleaved-wrongly", 'merged(module, "heads sorted")', "0"),
        ("masked-row-nan", "empty_rows(module)", "3 of 3"),
        ("masked-row-nan", "gradients(module)", "4 of 8"),
        ("window-off-by-one", "window(module)", "22 of 49"),
    ],
)
def test_what_a_probe_gives_is_what_was_done(name, call, gives):
    assert probes.CALLS[call](module(name)).written == gives


def test_a_call_is_written_as_a_learner_would():
    suspect = module("scale-d-model")
    space = {**vars(probes), "module": suspect, "C": 24, "D": 6}
    for call, probe in probes.CALLS.items():
        assert repr(eval(call, space)) == repr(probe(suspect))
    for probe, by, message in (
        (probes.divisor, "D", "divisor: by is a number"),
        (probes.merged, "banana", "merged: like"),
    ):
        with pytest.raises(ShapeError, match=message):
            probe(suspect, by)


def test_what_was_measured_trains():
    for record in RECORDS.values():
        assert len(record.losses) == costs.STEPS // costs.EVERY
        assert record.losses[-1] < record.losses[0] / 2  # it trains
        assert {len(runs) for runs in record[1:]} == {len(costs.SEEDS)}
        assert len({*record.at_once}) > 1  # of several seeds


def test_what_never_runs_in_training_changes_no_loss():
    best = RECORDS[costs.RIGHT]
    for name in (
        "mask-inverted",
        "masks-or-instead-of-and",
        "mask-first-batch-only",
        "positions-ignored",
        "keys-rotated-again",
    ):
        assert RECORDS[name].losses == best.losses
        pairs = zip(RECORDS[name].in_use, best.in_use, strict=True)
        assert all(used > 1.02 * right for used, right in pairs)
    assert best.at_once == best.in_use == best.loaded == RECORDS["no-mistake/shifted"].in_use


def test_reading_word_by_word_costs_the_right_model_nothing():
    model, ids, seen = costs.new_model().eval(), costs.fresh()[:100], []
    with torch.no_grad():
        assert costs.loss_at_once(model, ids) == pytest.approx(
            language_loss(model, ids).item(), abs=6e-4
        )
        model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
        assert costs.loss_at_once(model, ids)
        assert seen == [64, 36]
        assert costs.loss_in_use(model, ids) == pytest.approx(
            costs.loss_at_once(model, ids), abs=2e-3
        )
        for name in ("masked-row-nan", "sees-itself-alone", "cache-not-emptied"):
            assert costs.loss_in_use(costs.new_model(name).eval(), ids) is None
