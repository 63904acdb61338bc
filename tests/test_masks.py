"""Masks and their conventions against the modules of PyTorch that use them."""

import pytest
import torch
from rewriting import fails, numbers, one_thread, rewritten, same  # noqa: F401
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from mha_course import masks, variants
from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6


def reference():
    torch.manual_seed(1)
    return MultiHeadAttention(C, H).double().eval()


def seen(*shape):
    """Draw a mask in which every row sees something."""
    return (numbers(*shape, seed=3) > 0) | (torch.arange(shape[-1]) == 2)


# Each check takes the room, and holds it against an authority.


def there_and_back_is_the_identity(room):
    for attend in (masks.causal_mask(S), masks.padding_mask([S, 0], S), seen(B, 1, T, S), seen(S)):
        for convention in room.CONVENTIONS:
            for dtype in (torch.float16, torch.float32, torch.float64):
                written = room.from_attend(attend, convention, dtype=dtype)
                assert written.dtype == (dtype if convention == "additive" else torch.bool)
                assert torch.equal(room.to_attend(written, convention), attend)
                again = room.from_attend(room.to_attend(written, convention), convention, dtype=dtype)
                assert torch.equal(again, written)


def written_masks_mean_the_same_to_pytorch(room):
    q, k, v = (numbers(B, H, n, D, seed=seed) for seed, n in enumerate((T, S, S)))
    mha, x, memory, attend = reference(), numbers(B, T, C), numbers(B, S, C, seed=1), seen(T, S)
    want = F.scaled_dot_product_attention(q, k, v, attend)
    for convention in ("bool", "sdpa", "additive"):
        same(F.scaled_dot_product_attention(q, k, v, room.from_attend(attend, convention, dtype=q.dtype)), want)
    module, want = variants.to_torch(mha), mha(x, memory, mask=attend)[0]
    for convention in ("multihead", "additive"):
        same(module(x, memory, memory, attn_mask=room.from_attend(attend, convention, dtype=q.dtype))[0], want)


def alignments_are_those_of_pytorch(room):
    for queries, keys in ((T, S), (S, S), (1, S)):
        q, k, v = (numbers(B, H, n, D, seed=seed, dtype=torch.float32) for seed, n in enumerate((queries, keys, keys)))

        def attended(how, q=q, k=k, v=v, **kwargs):
            return F.scaled_dot_product_attention(q, k, v, how, **kwargs)

        for mask in (causal_upper_left(queries, keys), room.top_left_causal_mask(queries, keys)):
            same(attended(mask), attended(None, is_causal=True), torch.float32)
        same(attended(room.causal_mask_for_cache(queries, keys)), attended(causal_lower_right(queries, keys)),
             torch.float32)  # fmt: skip
    assert torch.equal(room.top_left_causal_mask(S, S), room.causal_mask(S))
    assert torch.equal(room.top_left_causal_mask(S, T), room.causal_mask(S)[:, :T])


def padded_sentences_attend_as_they_do_alone(room):
    mha, lengths = reference(), [4, S, 1]
    sentences = [numbers(1, length, C, seed=length) for length in lengths]
    alone = [mha(x)[0] for x in sentences]
    for side in ("right", "left"):
        places = [slice(0, n) if side == "right" else slice(S - n, S) for n in lengths]
        batch = torch.full((len(lengths), S, C), 9.0, dtype=torch.float64)
        for row, (place, x) in enumerate(zip(places, sentences, strict=True)):
            batch[row, place] = x
        mask = room.padding_mask(lengths, S, side=side)
        out, theirs = mha(batch, mask=mask)[0], variants.to_torch(mha)
        same(theirs(batch, batch, batch, key_padding_mask=~mask[:, 0, 0])[0], out)
        for row, (place, want) in enumerate(zip(places, alone, strict=True)):
            same(out[row : row + 1, place], want)
    assert torch.equal(room.padding_mask(lengths, S), room.padding_mask(lengths, S, side="right"))


def multihead_gets_what_it_takes(room):
    mha, x, memory = reference(), numbers(B, T, C), numbers(B, S, C, seed=1)
    module = variants.to_torch(mha)
    assert isinstance(module, nn.MultiheadAttention)
    shapes = ((T, S), (1, 1, T, S), (B, 1, T, S), (1, H, T, S), (B, H, T, S), (B, 1, 1, S), (1, 1, 1, S), (1, H, 1, S))
    for shape in shapes:
        mask = seen(*shape)
        if len(shape) == 4 and shape[2] == 1 and shape[1] > 1:
            mask = mask.expand(-1, -1, T, -1)
        arguments = room.multihead_arguments(mask, B, H)
        assert list(arguments) == ["key_padding_mask" if shape[1:3] == (1, 1) else "attn_mask"]
        got = module(x, memory, memory, average_attn_weights=False, **arguments)
        for mine, theirs in zip(got, mha(x, memory, mask=mask), strict=True):
            same(mine, theirs)


CHECKS = (
    there_and_back_is_the_identity,
    written_masks_mean_the_same_to_pytorch,
    alignments_are_those_of_pytorch,
    padded_sentences_attend_as_they_do_alone,
    multihead_gets_what_it_takes,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_agrees(check):
    check(masks)


# name: (what is broken, by what, the check that must see it)
WRONG = {
    "written as it is": ("return ~mask if convention in INVERTED else mask\n\n\ndef multihead",
                         "return mask\n\n\ndef multihead", CHECKS[0]),
    "always float32": ("return additive_mask(mask, dtype)", "return additive_mask(mask, torch.float32)", CHECKS[0]),
    "both ways inverted": ('INVERTED = ("multihead", "seaborn")', 'INVERTED = ("sdpa", "seaborn")', CHECKS[1]),
    "multihead not inverted": ('INVERTED = ("multihead", "seaborn")', 'INVERTED = ("seaborn",)', CHECKS[1]),
    "top left is bottom right": ("torch.ones(queries, keys, dtype=torch.bool, device=device).tril()",
                                 "torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)",
                                 CHECKS[2]),
    "bottom right is top left": (".tril(total - new)", ".tril()", CHECKS[2]),
    "padding on one side": ('real if side == "right" else real.flip(1)', "real", CHECKS[3]),
    "padding on the other side": ('side == "right" else', 'side == "left" else', CHECKS[3]),
    "sentences in reverse": ("real.flip(1)", "real.flip(0)", CHECKS[3]),
    "the wrong polarity": ("    hidden = ~mask\n", "    hidden = mask\n", CHECKS[4]),
    "heads before the batch": ("hidden.expand(batch, num_heads, -1, -1).flatten(0, 1)",
                               "hidden.expand(batch, num_heads, -1, -1).transpose(0, 1).flatten(0, 1)", CHECKS[4]),
    "padding of one sentence": ("hidden[:, 0, 0].expand(batch, -1)", "hidden[:1, 0, 0].expand(batch, -1)", CHECKS[4]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_versions_disagree(wrong):
    before, after, check = WRONG[wrong]
    assert fails(check, rewritten(masks, before, after))


ERRORS = {
    "no side": (
        lambda: masks.padding_mask([1, 3], 3, side="top"),
        "padding_mask: no side has this name. expected right, left, got 'top'",
    ),
    "no tokens": (
        lambda: masks.top_left_causal_mask(0, 3),
        "top_left_causal_mask: queries and keys must be positive ints. expected queries >= 1, keys >= 1, "
        "got queries=0, keys=3",
    ),
    "no convention": (
        lambda: masks.from_attend(masks.causal_mask(3), "keras"),
        "from_attend: no convention has this name. expected bool, sdpa, multihead, seaborn, additive, got 'keras'",
    ),
    "numbers": (
        lambda: masks.from_attend(torch.ones(3, 3), "sdpa"),
        "from_attend: mask must be bool, True = may attend. expected torch.bool, got torch.float32, "
        "fix: mask.bool() if it holds 0 and 1",
    ),
    "a list": (
        lambda: masks.multihead_arguments([[True]], 2, 4),
        "multihead_arguments: mask must be a tensor. expected a torch.Tensor, got list, fix: torch.as_tensor(mask)",
    ),
    "another batch": (
        lambda: masks.multihead_arguments(seen(3, 1, T, S), 2, 4),
        "multihead_arguments: mask must be (T, S), or 4-D and broadcastable to (B, H, T, S). "
        "expected (B=2, H=4, T=5, S=7), or its last two axes, got (B=3, H=1, T=5, S=7)",
    ),
    "three axes": (
        lambda: masks.multihead_arguments(seen(2, T, S), 2, 4),
        "multihead_arguments: mask must be (T, S), or 4-D and broadcastable to (B, H, T, S). "
        "expected (B=2, H=4, T=5, S=7), or its last two axes, got (2, 5, 7), "
        "fix: mask.unsqueeze(1), which gives it a head axis",
    ),
    "one axis": (
        lambda: masks.multihead_arguments(seen(S), 2, 4),
        "multihead_arguments: mask must be (T, S), or 4-D and broadcastable to (B, H, T, S). "
        "expected (B=2, H=4, T=1, S=7), or its last two axes, got (7,)",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_and_how(case):
    call, message = ERRORS[case]
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


def test_masks_are_where_they_are_asked_for(device):
    mask = masks.top_left_causal_mask(T, S, device=device)
    assert mask.device.type == device
    assert masks.from_attend(mask, "additive").device == mask.device
    lengths = torch.tensor([3, 1], device=device)
    padding = masks.padding_mask(lengths, S, side="left")
    assert padding.device == lengths.device
    assert masks.multihead_arguments(padding, 2, H)["key_padding_mask"].device == lengths.device
