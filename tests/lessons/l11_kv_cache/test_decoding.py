"""Decoding with and without a cache, and what a cache reads."""

import itertools

import pytest
import torch

from mha_course import masks
from mha_course.attention import attention
from mha_course.caching import GroupedQueryAttention
from mha_course.errors import ShapeError
from mha_course.lessons.l11_kv_cache import decoding

B, S, C, H, D = 2, 7, 24, 4, 6


@pytest.fixture
def module():
    torch.manual_seed(0)
    return GroupedQueryAttention(C, H, 2).double()


def test_decoding_with_a_cache_equals_the_whole(module, draw):
    x = draw(B, S, C)
    whole, _ = module(x, mask=masks.causal_mask(S))
    assert torch.allclose(decoding.with_cache(module, x), whole, atol=1e-12)
    assert torch.allclose(decoding.with_cache(module, x, (3, 1, 3)), whole, atol=1e-12)
    ways = decoding.splits(S)  # with each of which tests of decode_chunk decode
    assert len(set(ways)) == 2 ** (S - 1)
    assert {sum(chunks) for chunks in ways} == {S}


@pytest.mark.parametrize("chunks", [(3, 3), (7, 0), ()])
def test_chunks_must_make_up_the_sequence(chunks, module, draw):
    with pytest.raises(ShapeError, match=r"the chunks must make up the sequence"):
        decoding.with_cache(module, draw(B, S, C), chunks)


def test_reads_agree_with_finite_differences(draw):
    q, k, v = (draw(1, 1, S, D, seed=n) for n in range(3))
    mask, step = masks.causal_mask(S), 1e-6
    reads = decoding.reads(q, k, v, mask)
    for i, name in enumerate("qkv"):
        want = torch.zeros(S, S, D, dtype=torch.float64)
        for s, d in itertools.product(range(S), range(D)):
            rows = []
            for sign in (1, -1):
                parts = [part.clone() for part in (q, k, v)]
                parts[i][0, 0, s, d] += sign * step
                rows.append(attention(*parts, mask)[0][0, 0].sum(-1))
            want[:, s, d] = (rows[0] - rows[1]) / (2 * step)
        assert torch.allclose(reads[name], want.norm(dim=-1), atol=1e-7), name
