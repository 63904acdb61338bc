"""Lesson 11, KV cache and fewer KV heads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course import caching
from mha_course.exercises.attention_steps import ALL_SIX, ATTEND, NO_BIAS, Steps
from mha_course.exercises.inputs import D, Draw, H, S, T, draw
from mha_course.exercises.operations import EXITS, Operation, Rule
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS

R = 9  # width of a latent
UNITS = (2**10, 2**20, 2**30, 10**3, 10**6, 10**9)  # units that bytes are often converted to


def latent_scores(q: Tensor, w_uk: Tensor, latent: Tensor) -> Tensor:
    """Score queries against latents, unscaled, (B, H, T, D), (H, D, R), (B, S, R) -> (B, H,
    T, S).
    """
    absorbed = q @ w_uk  # (B, H, T, R)
    return absorbed @ latent.mT[:, None]  # (B, H, T, S)


def _makes_keys(operations: Sequence[Operation], q: Tensor, w_uk: Tensor, latent: Tensor) -> bool:
    """Find keys among the operands, at least one whole key, or a tensor as large as all keys."""
    if q.dtype != torch.float64:  # where chance matches are unlikely
        return False
    keys = (latent[:, None] @ w_uk.mT).flatten()  # B H S D numbers
    if any(math.prod(operation.output) == keys.numel() for operation in operations):
        return True
    inputs = (
        x.flatten()
        for operation in operations
        for x in operation.inputs
        if x.dtype == torch.float64
    )
    return any(int(((x[:, None] - keys).abs() < 1e-11).any(0).sum()) >= q.size(3) for x in inputs)


def _leaves_torch(operations: Sequence[Operation], *_: Tensor) -> bool:
    return any(
        operation.name in EXITS and x.is_floating_point()
        for operation in operations
        for x in operation.inputs
    )


def _joined(dim: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Append the new keys and values to the caches along an axis."""
    return lambda a, b, k, v: (torch.cat((a, k), dim), torch.cat((b, v), dim))


def _both(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return keys, values


OWN_STEPS = {"append": _joined(2), "seen": _both, "kept": _both}


def _build_decode_step(steps: Steps) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    s = Steps(**OWN_STEPS | vars(steps))

    def answer(
        x_t: Tensor, k_cache: Tensor, v_cache: Tensor, *others: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        *weights, w_o, h = others
        q, k, v = s.order(*s.project(x_t, x_t, weights, NO_BIAS[:3], h, s))
        q, k, v = s.split_each(q, k, v, h, s)
        keys, values = s.append(k_cache, v_cache, k, v)
        seen_keys, seen_values = s.seen(keys, values)
        scores = s.scale(s.scores(q, seen_keys), q, seen_keys, h)
        context = s.weigh(s.post(s.attend(scores, None, s), q), seen_values)
        return s.output(s.merge(context), w_o, None, h), *s.kept(keys, values)

    return answer


def _past(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return k[:, :, :-1], v[:, :, :-1]


def _newest(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return k[:, :, -1:], v[:, :, -1:]


def _read(
    pages: Tensor, table: Tensor, length: int, order: Callable[[Tensor], Tensor] = torch.clone
) -> Tensor:
    """Gather pages in an order other than the table's."""
    return caching.gather_pages(pages, order(table[: math.ceil(length / pages.size(2))]), length)


def _all_tokens(pages: Tensor, table: Tensor, length: int) -> Tensor:
    count = math.ceil(length / pages.size(2))
    return caching.gather_pages(pages, table[:count], count * pages.size(2))


def _whole_pages_alone(pages: Tensor, table: Tensor, length: int) -> Tensor:
    tokens = pages.size(2)
    return caching.gather_pages(pages, table, length // tokens * tokens)


def _last_tokens(pages: Tensor, table: Tensor, length: int) -> Tensor:
    return _all_tokens(pages, table, length)[:, -length:]


def _pages_before_heads(pages: Tensor, table: Tensor, length: int) -> Tensor:
    used = pages[table[: math.ceil(length / pages.size(2))]]
    return used.reshape(pages.size(1), -1, pages.size(3))[:, :length]


PAGES = [
    mistake(
        "pages-in-memory-order",
        gather_pages=[
            lambda pages, table, n: _read(pages, table, n, lambda t: t.sort().values),
            lambda pages, table, n: _read(pages, table, n, lambda t: torch.arange(len(t))),
        ],
    ),
    mistake(
        "tail-not-cut",
        gather_pages=[
            _all_tokens,
            lambda pages, table, n: pages[table].transpose(0, 1).flatten(1, 2),
        ],
    ),
    mistake("/part-of-a-page-dropped", gather_pages=_whole_pages_alone),
    mistake("/cut-at-the-start", gather_pages=_last_tokens),
    mistake("/pages-before-heads", gather_pages=_pages_before_heads),
    mistake(
        "/tokens-before-heads",
        gather_pages=lambda pages, table, n: caching.gather_pages(pages, table, n).transpose(0, 1),
    ),
    mistake(
        "/table-read-to-its-end",
        gather_pages=lambda pages, table, n: pages[table].transpose(0, 1).flatten(1, 2)[:, :n],
        crashes=r"index 40 is out of bounds|index out of range in self",
        only=("gather_pages",),
    ),
    # of the first input, where the table has 3 entries, and there are 4 heads
    mistake(
        "/beyond-the-table",
        crashes=r"index [3-6] is out of bounds for dimension 0 with size 3",
        only=("gather_pages",),
    ),
    mistake(
        "/pages-cut",
        crashes=r"index 7 is out of bounds for dimension 0 with size 3",
        only=("gather_pages",),
    ),
    mistake(
        "/heads-taken-for-tokens",
        crashes=r"index 4 is out of bounds for dimension 1 with size 4",
        only=("gather_pages",),
    ),
]  # fmt: skip


MISTAKES = [
    mistake(
        "cache-wrong-axis",
        append=[_joined(1), lambda a, b, k, v: _joined(2)(k, v, a, b), _joined(-1), _joined(0)],
    ),
    mistake(
        "cache-not-appended",
        append=[lambda a, b, k, v: (a, b), lambda a, b, k, v: (k, v)],
        kept=[_past, _newest],
    ),
    mistake(
        "cache-before-projection",
        project=lambda x, m, w, b, h, s: (s.linear(x, w[0]), m, m),
        only=("decode_step",),
    ),
    mistake("blind-to-itself", seen=_past),
    mistake("sees-itself-alone", seen=_newest),
    mistake(
        "caches-exchanged",
        kept=lambda k, v: (v, k),
        append=[
            lambda a, b, k, v: _joined(2)(b, a, k, v),
            lambda a, b, k, v: _joined(2)(b, a, v, k),
        ],
    ),
    mistake(
        "decode-first-key-only",
        attend=lambda z, m, s: torch.nn.functional.one_hot(
            torch.zeros_like(z[..., 0]).long(), z.size(-1)
        ).to(z),
        only=("decode_step",),
    ),
    mistake(
        "kv-repeat-interleaved-wrongly", repeat_kv=lambda k, h: k.repeat(1, h // k.size(1), 1, 1)
    ),
    mistake(
        "/repeated-too-often",
        repeat_kv=[lambda k, h: k.repeat_interleave(h, 1), lambda k, h: k.repeat(1, h, 1, 1)],
    ),
    mistake("/several-expanded", repeat_kv=lambda k, h: k.expand(-1, h, -1, -1)),
    mistake(
        "no-split/cache", crashes="same number of dimensions: got 4 and 3", only=("decode_step",)
    ),
    mistake(
        "cache-bytes-batch-missing",
        kv_cache_bytes=lambda layers, b, s, h, d, n: 2 * layers * s * h * d * n,
    ),
    mistake(
        "cache-bytes-one-of-kv",
        kv_cache_bytes=lambda layers, b, s, h, d, n: layers * b * s * h * d * n,
    ),
    mistake("/queries-counted", kv_cache_bytes=lambda *sizes: 3 * math.prod(sizes)),
    mistake(
        "/not-in-bytes",
        kv_cache_bytes=[
            *(lambda *sizes, unit=unit: 2 * math.prod(sizes) / unit for unit in UNITS),
            *(lambda *sizes, unit=unit: 2 * math.prod(sizes) // unit for unit in UNITS),
        ],
    ),
    *[
        mistake(
            f"/{name}-left-out",
            kv_cache_bytes=lambda *sizes, at=at: 2 * math.prod(sizes) // sizes[at],
        )
        for at, name in enumerate(
            ("layers", "batch", "seq_len", "num_kv_heads", "head_dim", "bytes_per_value")
        )
        if name != "batch"
    ],
    mistake(
        "latent-scores-scaled",
        latent_scores=[
            lambda q, w, c: latent_scores(q, w, c) / math.sqrt(q.size(-1)),
            lambda q, w, c: latent_scores(q, w, c) / math.sqrt(c.size(-1)),
        ],
    ),
    mistake("latent-scores-transposed", latent_scores=lambda q, w, c: latent_scores(q, w, c).mT),
    mistake(
        "one-head-for-all",
        latent_scores=[
            lambda q, w, c: latent_scores(q, w[:1], c),
            lambda q, w, c: latent_scores(q, w[-1:], c),
        ],
    ),
    mistake("up-projection-transposed", latent_scores=lambda q, w, c: q @ w.mT @ c.mT[:, None]),
    mistake(
        "latents-without-head-axis",
        latent_scores=[lambda q, w, c: q @ w @ c.mT, lambda q, w, c: q @ w @ c[None].mT],
    ),
    mistake("key-all-axes-reversed/latents", latent_scores=lambda q, w, c: q @ w @ c.T),
    mistake(
        "/softmax-already/latents", latent_scores=lambda *given: latent_scores(*given).softmax(-1)
    ),
    mistake("key-not-transposed/latents", latent_scores=lambda q, w, c: q @ w @ c[:, None]),
    *PAGES,
]


def _drawn_heads(d: Draw) -> tuple[Tensor, int]:
    num_kv_heads = d.H - 1 or 1
    times = (2, 3, 1, 5)[d.number % 4]  # 1 if each query head has its own
    return d.normal(d.B, num_kv_heads, d.S, d.D), num_kv_heads * times


def _drawn_caches(d: Draw) -> tuple[Any, ...]:
    """Return a new token, the caches (in one case empty), weights and the number of heads."""
    length = 0 if d.kind == "one query" else d.S
    caches = (d.normal(d.B, d.H, length, d.D), d.normal(d.B, d.H, length, d.D))
    return d("B1C"), *caches, *d.matrices("CC", "CC", "CC", "CC"), d.H


def _drawn_pages(d: Draw) -> tuple[Tensor, Tensor, int]:
    """Return pages of d.T tokens, and a table that lists more than the text's pages, if there are
    several.
    """
    count = min(d.S, d.O)
    behind = [10**6, -1] if count > 1 else []
    table = torch.tensor([*d.picks.sample(range(d.O), count), *behind])
    length = d.T * count - d.picks.choice((0, d.T - 1, d.picks.randrange(d.T)))
    return d("OHTD"), table, length


EXERCISES = [
    Exercise(
        caching.decode_step,
        "The new token needs its own q, k and v. What does it need from the tokens before it, and "
        "what doesn't it need?",
        "Project and split the one token, append its key and value to the caches, and attend with "
        "its query to all of them. No mask is needed here: nothing in the cache is in the future, "
        "and nothing is padding.",
        "q, k, v of the new token are (B, H, 1, D). Both caches grow from (B, H, P, D) to (B, H, "
        "P + 1, D). Its weights are (B, H, 1, P + 1).",
        line="q, k, v = (split_heads(x_t @ w.T, num_heads) for w in (w_q, w_k, w_v))  # (B, H, 1, "
        "D)\n"
        "k_cache = torch.cat((k_cache, k), dim=2)  # (B, H, P + 1, D)\n"
        "v_cache = torch.cat((v_cache, v), dim=2)",
        drawn=_drawn_caches,
        allows=("no gradient",),
        axes={"output": "B 1 C", "keys": "B H P+1 D", "values": "B H P+1 D"},
        steps=(*ALL_SIX, *ATTEND, *OWN_STEPS),
        build=_build_decode_step,
        done="You can read one word at a time. Feed a sentence word by word, and compare the "
        "outputs with those of one causal pass.",
    ),
    Exercise(
        caching.repeat_kv,
        "With 2 KV heads and 6 query heads, which KV head serves query head 2?",
        "Write each KV head several times in a row. `repeat` would write the whole list of heads "
        "several times. Look for another function with repeat in its name.",
        "Along axis 1, (B, H_kv, S, D) becomes (B, H, S, D): each head appears H / H_kv times.",
        line="return k.repeat_interleave(num_heads // k.size(1), dim=1)  # (B, H, S, D)",
        special_cases=[("", lambda: (draw(4, 3, S, D, seed=1), 3 * H))],
        drawn=_drawn_heads,
        axes="B H S D",
        done="You can let few KV heads serve many query heads. Try a single KV head: that is "
        "multi-query attention.",
    ),
    Exercise(
        latent_scores,
        "A score is q · (W_UK c). Which other two of the three can be multiplied first?",
        "Map each query into the space of the latents, once. Then compare it with the latents "
        "themselves, which are the same for all heads. See “One latent for all heads”.",
        "q (B, H, T, D) times w_uk (H, D, R) is (B, H, T, R). The latents (B, S, R) have no head "
        "axis: transposed, and with an axis of size 1 for the heads, they are (B, 1, R, S).",
        drawn=lambda d: (d("BHTD"), d("HDR"), d("BSR")),
        axes="B H T S",
        done="Your queries read what all heads share, and you never made a key. Next: do the same "
        "with the values.",
        rules=(
            Rule(ROWS["keys-made-again"], _makes_keys),
            Rule(ROWS["/latents-leave-torch"], _leaves_torch),
        ),
    ),
    Exercise(
        caching.kv_cache_bytes,
        "What is cached for one token in one layer, and how many numbers is that?",
        "Multiply all the sizes. Both keys and values are cached.",
        "Each layer keeps two tensors (B, H_kv, S, D), and each number takes bytes_per_value "
        "bytes. The result is an int.",
        line="return 2 * layers * batch * seq_len * num_kv_heads * head_dim * bytes_per_value",
        special_cases=[("", lambda: (7, 3, 11, 5, 13, 16)), ("", lambda: (9, 3, 17, 5, 6, 4))],
        drawn=lambda d: (d.O, *d.shape("BSHD"), d.picks.choice((1, 2, 8))),
        done="You can tell how large a cache gets before you build it. Try a model that you know, "
        "then a quarter of its KV heads.",
    ),
    Exercise(
        caching.gather_pages,
        "How many pages does a text of `length` tokens fill, if a page holds N? Which pages are "
        "they, and in which order?",
        "Take as many entries of the table as the text needs, and pick those pages. Then make "
        "pages and tokens neighbouring axes before you join them.",
        "pages[…] is (n, H, N, D). Move the heads to the front, (H, n, N, D), join n and N, and "
        "cut the result to (H, length, D).",
        line="count = -(-length // pages.size(2))  # rounded up\n"
        "picked = pages[table[:count]]  # (count, H, N, D)\n"
        "keys = picked.transpose(0, 1).flatten(1, 2)  # (H, count * N, D)\n"
        "return keys[:, :length]",
        special_cases=[
            # Two tokens in a last page of five: rounding to the nearest number of pages drops them.
            ("", lambda: (draw(9, H, T, D, seed=1), torch.tensor([7, 2, 5]), 12)),
            (
                "Here the text fills two pages, and the table continues with 40 and −1, which are "
                "not pages of this text.",
                lambda: (draw(9, H, T, D, seed=2), torch.tensor([3, 8, 40, -1]), 10),
            ),
        ],
        drawn=_drawn_pages,
        axes="H length D",
        allows=("no gradient",),
        done="You can read a text from pages that are anywhere in memory. Give two texts the same "
        "first page: what they share is stored once.",
    ),
]

LESSON = Lesson(11, "KV cache and fewer KV heads", EXERCISES)
