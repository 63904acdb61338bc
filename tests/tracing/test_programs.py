"""Short programs, right and wrong: the wrong ones get a warning or a question, the right ones no
warning.

Attention as people write it, whole and with the most common mistakes, is in the corpus
(test_on_corpus).
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.tracing import trace

B, S, H, D = 2, 6, 3, 4
C = H * D
SQUARE = {"B": 4, "S": 4, "H": 4, "D": 4}


def linear(width=C, out=None):
    return nn.Linear(width, out or width)


def split(x, heads=H):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def qkv(x, heads=H):
    return [split(linear(x.size(-1))(x), heads) for _ in range(3)]


def of_heads(fn, heads=H):
    """Return a program that passes on q, k and v, and whatever else it is given."""
    return lambda x, *others: fn(*qkv(x, heads), *others)


# A function of (B, S, C); or of one or more tensors, with their axes and the sizes that differ from
# those in traced().
RIGHT = {
    "patches_merged": lambda x: linear(4 * C, C)(x.view(B, S // 2, 2 * C).repeat(1, 1, 2)),
    "frames_stacked_then_heads": lambda x: (
        x.reshape(B, S // 2, 2 * C).reshape(B, S // 2, 2 * H, D).transpose(1, 2)
    ),
    "positions_by_another_name": (lambda x, positions: x + positions, "B S C,P C", {"P": S}),
    "kernels_without_softmax": of_heads(
        lambda q, k, v: merge((F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v))
    ),
}
WRONG = {
    "patches_without_permute": (
        lambda x: x.reshape(B, C, 2, 2, 3, 2).reshape(B, 6, C * 4),
        "B C Y X",
        {},
    ),
    "windows_without_permute": (lambda x: x.view(B * 6, 4, C), "B Y X C", {}),
    "angles_on_the_heads": (
        lambda q: q * torch.outer(torch.arange(q.size(1)), torch.ones(q.size(-1))).cos(),
        "B S H D",
        {"S": H},
    ),
    "kernel_on_tokens_before_heads": lambda x: F.scaled_dot_product_attention(
        *(linear()(x).unflatten(-1, (H, D)) for _ in range(3))
    ),
    "keys_times_queries_turned_late": of_heads(lambda q, k, v: (k @ q.mT).softmax(-1).mT @ v),
    "cache_joined_along_the_batch": (
        lambda past, new: new.repeat(2, 1, 1, 1) @ torch.cat([past, new]).mT,
        "B H S D,B H S D",
        {},
    ),
    "cache_joined_along_the_width": (
        lambda past, new: torch.cat([new, new], -1) @ torch.cat([past, new], -1).mT,
        "B H S D,B H S D",
        {},
    ),
    "cache_joined_along_the_heads_of_the_other_layout": (
        lambda past, new: torch.cat([past, new], 2).transpose(1, 2),
        "B S H D,B S H D",
        {"S": H},
    ),
    "padding_laid_on_the_queries": (
        of_heads(
            lambda q, k, v, keep: (
                (q @ k.mT).masked_fill((keep < 0)[:, None, :, None], -1e9).softmax(-1) @ v
            )
        ),
        "B S C,B S",
        {"S": B},
    ),
    "merged_from_the_other_end": of_heads(
        lambda q, k, v: linear()(((q @ k.mT).softmax(-1) @ v).permute(3, 1, 2, 0).reshape(B, S, C))
    ),
    "viewed_with_letters_of_torch": (
        lambda x: (x.view(B, H, S, D) @ x.view(B, H, S, D).mT).softmax(-2),
        "N L E",
        {"N": B, "L": S, "E": C},
    ),
}


def program(table, axes="B S C", **sizes):

    def enter(fn):
        table[fn.__name__] = fn, axes, sizes
        return fn

    return enter


# Right


@program(RIGHT, axes="B N C,B M C", N=5, M=7)
def both_ways(a, b):
    q, k, v, w = split(linear()(a)), split(linear()(b)), split(linear()(a)), split(linear()(b))
    scores = q @ k.mT
    return merge(scores.softmax(-1) @ w), merge(scores.mT.softmax(-1) @ v)


@program(RIGHT)
def width_read_as_d_h(x):
    q, k, v = (linear()(x).reshape(B, S, D, H).permute(0, 3, 1, 2) for _ in range(3))
    return linear()(((q @ k.mT).softmax(-1) @ v).permute(0, 2, 3, 1).reshape(B, S, C))


@program(RIGHT, axes="B H T D,H R D", T=S, R=2 * S - 1)
def relative_shift(q, positions):
    scores = F.pad(torch.einsum("bhtd,hrd->bhtr", q, positions), (1, 0))
    return scores.view(B, H, 2 * S, S)[:, :, 1:].view(B, H, S, 2 * S - 1)[..., :S]


@program(RIGHT)
def heads_of_two_widths_that_are_alike(x):
    rope = linear(C, D)(x)[:, None].expand(B, H, S, D)
    q, k = (
        torch.cat(linear(C, 2 * C)(x).view(B, S, H, 2 * D).transpose(1, 2).split(D, -1), -1),
        qkv(x)[0],
    )
    return (q @ torch.cat([k, rope], -1).mT).softmax(-1)


@program(RIGHT, axes="B Y X C")
def rows_and_columns(x):
    rows, columns = x.permute(0, 2, 1, 3), x
    along_y = (rows @ rows.mT).softmax(-1) @ rows
    along_x = (columns @ columns.mT).softmax(-1) @ columns
    return along_y.permute(0, 2, 1, 3) + along_x


@program(RIGHT, axes="B C Y X")
def pixels_as_keys(x):
    q, k, v = (nn.Conv2d(C, C, 1)(x).flatten(2) for _ in range(3))
    weights = (q.mT @ k).softmax(-1)
    return x + (v @ weights.mT).view(x.shape)


@program(RIGHT)
def decays_by_head(x):
    q, k, v = qkv(x)
    at = torch.arange(x.size(1))
    decay = torch.linspace(0.5, 0.9, H)[:, None, None] ** (at[:, None] - at[None]).clamp(0)
    return merge(q @ k.mT * decay @ v)


@program(RIGHT, **SQUARE)
def masks_made_inside(x):
    q, k, v = qkv(x, 4)
    at = torch.arange(x.size(1))
    scores = (q @ k.mT).masked_fill(at[:, None] < at[None, :], -1e9)
    return merge(scores.masked_fill((at < 3)[None, None, None, :], -1e9).softmax(-1) @ v)


@program(RIGHT)
def pieces_of_a_width_as_rows(x):
    gates = linear(C, 14)(x).view(B, S, 2, 7).reshape(-1, 7)
    grouped = (x.reshape(-1, 6), x.reshape(-1, 2, 6))
    return gates * linear(C, 14)(x).reshape(-1, 7), grouped


@program(RIGHT, axes="B C Y X")
def patches_by_folding_rows_into_the_batch(x):
    x = nn.Conv2d(C, 20, 1)(x)
    x = x.reshape(B * 20 * 2, 2, 3, 2).transpose(1, 2)
    x = x.reshape(B, 20, 6, 4).transpose(1, 3)
    x = linear(20)(x.reshape(B * 4, 6, 20)).view(B, 4, 6, 20)
    return x.transpose(1, 3).reshape(B * 20 * 2, 3, 2, 2).transpose(1, 2).reshape(B, 20, 4, 6)


@program(RIGHT, S=2 * C)
def tokens_mixed_by_two_layers(x):
    gate, kept = linear(C, 2 * C)(x).chunk(2, -1)
    x = x + linear(5, 2 * C)(linear(2 * C, 5)(x.mT)).mT
    return x + gate * nn.Conv1d(2 * C, 2 * C, 1)(kept)


@program(RIGHT, S=C)
def weights_made_by_a_linear(x):
    return linear()(x).softmax(-1) @ x


@program(RIGHT, axes="B Y X C,B S C")
def a_picture_and_words_in_one_sequence(picture, words):
    def attend(x):
        return x + (x @ x.mT).softmax(-1) @ x

    return attend(torch.cat([picture.flatten(1, 2), attend(words)], 1))


@program(RIGHT, axes="B H S D,B H S D,B H S D")
def the_difference_of_two_attentions(q, k, v):
    weights = (q @ k.mT).softmax(-1)
    both = torch.cat([(weights @ part).transpose(1, 2) for part in (v, v.flip(1))], -1)
    left, right = both.split(D, -1)
    return (left - right / 2).flatten(2)


@program(RIGHT, axes="B S C", H=4, H_kv=2)
def keys_and_values_in_one_linear_as_wide_as_the_queries(x):
    q = linear(16)(x).view(B, S, 2, 2, D).permute(0, 2, 3, 1, 4)
    k, v = linear(16)(x).view(B, S, 2, 2, D).permute(2, 0, 3, 1, 4)
    weights = (q @ k[:, :, None].mT).softmax(-1)
    return linear(16)((weights @ v[:, :, None]).permute(0, 3, 1, 2, 4).flatten(2))


@program(RIGHT, axes="B S H D,B S H D,B T S C", T=S)
def a_bias_for_each_pair(q, k, pairs):
    return torch.einsum("bihd,bjhd->bijh", q, k) + linear(C, H)(pairs)


@program(RIGHT, axes="B T C,B S C,B T T',B T S", **{"T'": 5})
def own_and_other_keys_in_one_attention(x, memory, own, cross):
    k = torch.cat([split(x), split(memory)], 2)
    mask = torch.cat([own[:, None], cross[:, None]], -1)
    return merge((split(x) @ k.mT + mask).softmax(-1) @ k)


class SmallScores(nn.Module):
    """Scores of small heads, added up with weights; a head's rotated part is as wide as H."""

    def __init__(self):
        super().__init__()
        self.num_heads = self.qk_rope_head_dim = H
        self.q, self.k, self.weight = linear(C, H * 5), linear(C, 5), linear(C, H)

    def forward(self, x):
        scores = self.q(x).view(B, S, H, 5) @ self.k(x).mT[:, None]
        return (self.weight(x)[..., None, :] @ scores).squeeze(-2)


RIGHT["a_weight_for_each_small_head"] = SmallScores()


# Wrong


@program(WRONG, axes="B S C,B S C", H=4, H_kv=2)
def groups_repeated_in_two_ways(x, y):
    q, k, v = split(linear(16)(x), 4), split(linear(16, 8)(y), 2), split(linear(16, 8)(y), 2)
    return merge((q @ k.repeat(1, 2, 1, 1).mT).softmax(-1) @ v.repeat_interleave(2, dim=1))


@program(WRONG)
def qkv_cut_along_the_tokens(x):
    q, k, v = linear()(x).chunk(3, dim=1)
    return (split(q) @ split(k).mT).softmax(-1) @ split(v)


@program(WRONG)
def fused_qkv_cut_along_the_tokens(x):
    q, k, v = linear(C, 3 * C)(x).split(S // 3, dim=1)
    return (q @ k.mT).softmax(-1) @ v


@program(WRONG)
def fused_qkv_laid_along_the_tokens(x):
    q, k, v = linear(C, 3 * C)(x).view(B, 3 * S, C).chunk(3, dim=1)
    return F.scaled_dot_product_attention(split(q), split(k), split(v))


@program(WRONG, axes="B T C,B S C", T=S)
def weights_over_the_memory_for_the_text(x, memory):
    return (x @ memory.mT).softmax(-1) @ x


@program(WRONG, axes="B Y X C", X=4)
def windows_reversed_without_permute(x):
    windows = x.view(B, 2, 2, 2, 2, C).permute(0, 1, 3, 2, 4, 5).reshape(B * 4, 4, C)
    return x + windows.view(B, 2, 2, 2, 2, C).reshape(B, 4, 4, C)


@program(WRONG, axes="B H S D,B H T D", T=1)
def cache_joined_along_the_heads(past, new):
    keys = torch.cat([past, new.expand(-1, -1, S, -1)], dim=1)
    return (new.repeat(1, 2, 1, 1) @ keys.mT).softmax(-1)


@program(WRONG, axes="B C Y X")
def softmax_over_the_queries_of_a_picture(x):
    q, k, v = (nn.Conv2d(C, C, 1)(x).flatten(2) for _ in range(3))
    return v @ (q.mT @ k).softmax(1).mT


@program(WRONG, **SQUARE)
def mask_made_inside_on_the_heads(x):
    q, k, v = qkv(x, 4)
    hidden = torch.arange(x.size(1)) > 2
    return (q @ k.mT).masked_fill(hidden[None, :, None, None], -1e9).softmax(-1) @ v


@program(WRONG)
def stored_head_by_head_and_merged_without_transpose(x):
    q, k, v = qkv(x)
    weights, out = (q @ k.mT).softmax(-1), torch.zeros(B, H, S, D)
    for head in range(H):
        out[:, head] = weights[:, head] @ v[:, head]
    return linear()(out.reshape(B, S, C))


def traced(name):
    entry = (RIGHT | WRONG)[name]
    fn, axes, sizes = entry if isinstance(entry, tuple) else (entry, "B S C", {})
    known = {
        "B": B,
        "S": S,
        "T": 5,
        "H": H,
        "D": D,
        "C": sizes.get("H", H) * sizes.get("D", D),
        "Y": 4,
        "X": 6,
    }
    sizes = known | sizes
    shapes = [[sizes[letter] for letter in pattern.split()] for pattern in axes.split(",")]
    torch.manual_seed(0)
    given = {key: size for key, size in sizes.items() if key in ("H", "H_kv")}
    return trace(fn, *(torch.randn(shape) for shape in shapes), axes=axes.split(","), sizes=given)


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_not_warned_about(name):
    found = traced(name)
    assert found.warnings == ()
    allowed = {"positions_by_another_name": "broadcast-of-different-axes"}.get(name)
    asked = {step.question.partition(":")[0] for step in found.questions} - {allowed}
    assert asked.isdisjoint({"cache-joined", "broadcast-of-different-axes"})


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_warned_about_or_asked(name):
    found = traced(name)
    assert found.warnings or found.questions


@pytest.mark.parametrize(
    ("name", "op", "expected"),
    [("pixels_as_keys", "softmax", "B Y'*X' Y*X"), ("pixels_as_keys", "view", "B C Y' X'"),
     ("softmax_over_the_queries_of_a_picture", "softmax", "B Y'*X' Y*X"),
     ("windows_reversed_without_permute", "permute", "B Y/2 X/2 2 2 C"),
     ("groups_repeated_in_two_ways", "repeat", "B H S D")],
)  # fmt: skip
def test_names_in_these_programs(name, op, expected):
    assert [step.axes for step in traced(name).steps if step.op == op][-1] == tuple(
        expected.split()
    )
