"""Decoding in chunks and shared key-value heads, against the whole pass and PyTorch."""

import itertools

import pytest
import torch
from rewriting import fails_with, numbers, refused, same, wrong_versions
from torch.nn import functional as F

from mha_course import caching, masks
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.lessons.l11_kv_cache.decoding import splits

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
GROUPS = (1, 2, H)


def reference(bias=True):
    torch.manual_seed(1)
    return MultiHeadAttention(C, H, bias=bias).double()


def grouped(groups, bias=True):
    torch.manual_seed(2)
    return caching.GroupedQueryAttention(C, H, groups, bias=bias).double()


def test_every_split_gives_what_the_whole_gives():
    x = numbers(B, S, C)
    for module in (reference(), reference(bias=False), *(grouped(groups) for groups in GROUPS)):
        want = module(x, mask=masks.causal_mask(S))[0]
        for lengths in splits(S):
            cache, outs = caching.KVCache(), []
            for chunk in x.split(lengths, dim=1):
                outs.append(caching.decode_chunk(module, chunk, cache))
            same(torch.cat(outs, dim=1), want)
            assert cache.length == S


def test_steps_give_what_the_whole_gives():
    module, x = reference(bias=False), numbers(B, S, C)
    want = module.steps(x, is_causal=True)
    weights = [linear.weight for linear in module.children()]
    k = v = torch.zeros(B, H, 0, D, dtype=x.dtype)
    for place in range(S):
        out, k, v = caching.decode_step(x[:, place : place + 1], k, v, *weights, H)
        same(out[:, 0], want.out[:, place])
        same(k, want.k[:, :, : place + 1])
        same(v, want.v[:, :, : place + 1])


def test_gradients_flow_through_the_cache():
    module, x = grouped(2), numbers(B, S, C).requires_grad_()
    cache = caching.KVCache()
    outs = torch.cat(
        [caching.decode_chunk(module, chunk, cache) for chunk in x.split((3, 1, 3), dim=1)], dim=1
    )
    whole = module(x, mask=masks.causal_mask(S))[0]
    upstream = numbers(B, S, C, seed=3)
    same(*(torch.autograd.grad(out, x, upstream)[0] for out in (outs, whole)))


def test_grouped_equals_torchs_kernel():
    x, memory = numbers(B, T, C), numbers(B, S, C, seed=1)
    mask = (numbers(B, 1, T, S, seed=3) > 0) | (torch.arange(S) == 2)
    for groups in GROUPS:
        module = grouped(groups)
        q, k, v = (split_heads(proj(y), n) for proj, y, n in (
            (module.q_proj, x, H), (module.k_proj, memory, groups),
            (module.v_proj, memory, groups)))  # fmt: skip
        for given in (None, mask):
            context = F.scaled_dot_product_attention(q, k, v, given, enable_gqa=True)
            for need_weights in (True, False):
                same(
                    module(x, memory, mask=given, need_weights=need_weights)[0],
                    module.out_proj(merge_heads(context)),
                )
        k, v = (x.repeat_interleave(H // groups, 1) for x in (k, v))
        same(module(x, memory, mask=mask)[1], attention(q, k, v, mask)[1])


def test_converted_heads_are_means_of_their_group():
    assert caching.GroupedQueryAttention(C, H, 2).k_proj.bias is not None
    for bias, groups in itertools.product((True, False), GROUPS):
        mha, x = reference(bias).eval(), numbers(B, S, C)
        module = caching.GroupedQueryAttention.from_multi_head(mha, groups)
        assert not module.training
        with torch.no_grad():  # the same by hand: each head gets the mean of its group
            for linear in (mha.k_proj, mha.v_proj):
                for parameter in linear.parameters():
                    heads = parameter.clone().view(groups, H // groups, D, -1)
                    means = torch.stack([group.sum(0) / (H // groups) for group in heads])
                    parameter.copy_(means.repeat_interleave(H // groups, 0).view_as(parameter))
        for got, want in zip(module(x), mha(x), strict=True):
            same(got, want)


def test_the_cache_weighs_what_was_foretold():
    cache = caching.KVCache()
    assert (cache.length, cache.bytes) == (0, 0)
    for step, new in enumerate((3, 1, 1, 2)):
        module = grouped(2).float()
        caching.decode_chunk(module, numbers(B, new, C, seed=step, dtype=torch.float32), cache)
        assert cache.bytes == caching.kv_cache_bytes(1, B, cache.length, 2, D, 4)
        assert cache.bytes == sum(x.untyped_storage().nbytes() for x in (cache.k, cache.v))
    assert cache.length == 7
    assert caching.kv_cache_bytes(3, 5, 0, 2, D, 4) == 0


def test_what_was_handed_out_stays():
    cache, k = caching.KVCache(), numbers(B, 2, 3, D)
    first, _ = cache.append(k, k)
    before = first.clone()
    cache.append(k + 1, k + 1)
    assert torch.equal(first, before)
    assert torch.equal(cache.k, torch.cat((k, k + 1), dim=2))


def test_pages_give_back_the_text_in_its_order():
    text, table = numbers(H, 12, D), torch.tensor([3, 0, 4, 99])  # the last is never read
    pages = torch.zeros(5, H, 4, D, dtype=text.dtype)
    pages[table[:3]] = text.unflatten(1, (3, 4)).transpose(0, 1)
    for length in (0, 1, 4, 5, 11, 12):
        assert torch.equal(caching.gather_pages(pages, table, length), text[:, :length])
        assert torch.equal(caching.gather_pages(pages, table[:3], length), text[:, :length])


chunk, MASK = caching.decode_chunk, "causal_mask_for_cache(new, total, device=x.device)"
# Which test must catch each wrong line: {the test: {what is wrong: (function, old, new)}}.
WRONG = {
    test_every_split_gives_what_the_whole_gives: {
        "chunk sees the future": (chunk, MASK, "None"),
        "mask at the top left": (chunk, MASK, "torch.ones(new, total).tril().bool()"),
        "the new alone": (chunk, "k, v = cache", "k, v = k_new, v_new\n    cache"),
    },
    test_gradients_flow_through_the_cache: {
        "cut from the graph": (
            caching.KVCache.append,
            "self.k, self.v = k, v",
            "self.k, self.v = k.detach(), v.detach()",
        )
    },
}


@pytest.mark.filterwarnings("ignore")
@wrong_versions(WRONG)
def test_wrong_lines_disagree(check, edit):
    assert fails_with(check, *edit)


K, CACHE, W = torch.ones(B, 2, 3, D), torch.ones(B, H, 3, D), torch.ones(C, C)
ERRORS = {
    "GroupedQueryAttention: query has the wrong C. expected (B, T, C=24), got (B=2, T=5, C=20)":
        lambda: caching.GroupedQueryAttention(24, 4, 2)(torch.ones(B, T, 20)),
    "decode_step: x_t has the wrong T. expected (B, T=1, C), got (B=2, T=2, C=24)":
        lambda: caching.decode_step(torch.ones(B, 2, C), CACHE, CACHE, W, W, W, W, H),
    "decode_step: v_cache has the wrong P. expected (B=2, H=4, P=3, D=6), got (B=2, H=4, P=2, D=6)":
        lambda: caching.decode_step(torch.ones(B, 1, C), CACHE, CACHE[:, :, 1:], W, W, W, W, H),
    "decode_step: w_k has the wrong C. expected (C=24, C'=24), got (C=20, C'=24)":
        lambda: caching.decode_step(torch.ones(B, 1, C), CACHE, CACHE, W, W[:20], W, W, H),
    "decode_step: num_heads must divide C. expected C % num_heads == 0, got C=24, num_heads=5, "
    "fix: num_heads=4 or 6, or C=20 or 25": lambda: caching.decode_step(torch.ones(B, 1, C), CACHE,
        CACHE, W, W, W, W, 5),
    "gather_pages: pages must have 4 axes. expected (A, H, N, D), got (2, 3, 6)":
        lambda: caching.gather_pages(K[0], torch.tensor([1, 0]), 2),
    "gather_pages: length must be a whole number. expected length >= 0, got length=-1":
        lambda: caching.gather_pages(K, torch.tensor([1, 0]), -1),
    "gather_pages: a text must fit into its pages. expected length <= n N = 6, got length=7":
        lambda: caching.gather_pages(K, torch.tensor([1, 0]), 7),
    "kv_cache_bytes: seq_len must be a whole number. expected seq_len >= 0, got seq_len=-1":
        lambda: caching.kv_cache_bytes(1, 1, -1, 1, 1, 2),
    "decode_chunk: x has the wrong C. expected (B, S, C=24), got (B=2, S=5, C=20)":
        lambda: caching.decode_chunk(MultiHeadAttention(24, 4), torch.ones(B, T, 20),
            caching.KVCache()),
    "KVCache.append: k has the wrong G. expected (B=2, G=2, T, D=6), got (B=2, G=1, T=3, D=6)":
        lambda: appended(K, K[:, :1]),
    "KVCache.append: k must have the dtype of the cache. expected torch.float32, got "
    "torch.float64, fix: k.to(torch.float32)": lambda: appended(K, K.double()),
}  # fmt: skip


def appended(*parts):
    cache = caching.KVCache()
    for part in parts:
        cache.append(part, part)


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_and_how(message):
    refused(ERRORS[message], message)
