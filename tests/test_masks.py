"""Masks and their conventions against the modules of PyTorch that use them."""

import pytest
import torch
from rewriting import fails_with, numbers, refused, same, wrong_versions
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from mha_course import masks, variants
from mha_course.attention import MultiHeadAttention

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6


def reference():
    torch.manual_seed(1)
    return MultiHeadAttention(C, H).double().eval()


def seen(*shape):
    """Draw a mask in which every row sees something."""
    return (numbers(*shape, seed=3) > 0) | (torch.arange(shape[-1]) == 2)


def test_there_and_back_is_the_identity():
    for attend in (masks.causal_mask(S), masks.padding_mask([S, 0], S), seen(B, 1, T, S), seen(S)):
        for convention in masks.CONVENTIONS:
            written = masks.from_attend(attend, convention)
            assert written.dtype == (torch.float32 if convention == "additive" else torch.bool)
            assert torch.equal(masks.to_attend(written, convention), attend)
            again = masks.from_attend(masks.to_attend(written, convention), convention)
            assert torch.equal(again, written)
        for dtype in (torch.float16, torch.float32, torch.float64):
            added = masks.additive_mask(attend, dtype)
            assert added.dtype == dtype
            assert torch.equal(masks.to_attend(added, "additive"), attend)


def written_for(attend, convention, dtype):
    """Write a mask; the additive one in the dtype of the scores."""
    written = masks.from_attend(attend, convention)
    return written.to(dtype) if written.is_floating_point() else written


def test_written_masks_mean_the_same_to_pytorch():
    q, k, v = (numbers(B, H, n, D, seed=seed) for seed, n in enumerate((T, S, S)))
    mha, x, memory, attend = reference(), numbers(B, T, C), numbers(B, S, C, seed=1), seen(T, S)
    want = F.scaled_dot_product_attention(q, k, v, attend)
    for convention in ("bool", "sdpa", "additive"):
        same(
            F.scaled_dot_product_attention(q, k, v, written_for(attend, convention, q.dtype)), want
        )
    module, want = variants.to_torch(mha), mha(x, memory, mask=attend)[0]
    for convention in ("multihead", "additive"):
        same(module(x, memory, memory, attn_mask=written_for(attend, convention, q.dtype))[0], want)


def test_alignments_are_those_of_pytorch():
    for queries, keys in ((T, S), (S, S), (1, S)):
        q, k, v = (
            numbers(B, H, n, D, seed=seed, dtype=torch.float32)
            for seed, n in enumerate((queries, keys, keys))
        )

        def attended(how, q=q, k=k, v=v, **kwargs):
            return F.scaled_dot_product_attention(q, k, v, how, **kwargs)

        for mask in (causal_upper_left(queries, keys), masks.top_left_causal_mask(queries, keys)):
            same(attended(mask), attended(None, is_causal=True), torch.float32)
        same(attended(masks.causal_mask_for_cache(queries, keys)),
            attended(causal_lower_right(queries, keys)),
             torch.float32)  # fmt: skip
    assert torch.equal(masks.top_left_causal_mask(S, S), masks.causal_mask(S))
    assert torch.equal(masks.top_left_causal_mask(S, T), masks.causal_mask(S)[:, :T])


def test_padded_sentences_attend_as_they_do_alone():
    mha, lengths = reference(), [4, S, 1]
    sentences = [numbers(1, length, C, seed=length) for length in lengths]
    alone = [mha(x)[0] for x in sentences]
    for side in ("right", "left"):
        places = [slice(0, n) if side == "right" else slice(S - n, S) for n in lengths]
        batch = torch.full((len(lengths), S, C), 9.0, dtype=torch.float64)
        for row, (place, x) in enumerate(zip(places, sentences, strict=True)):
            batch[row, place] = x
        mask = masks.padding_mask(lengths, S, side=side)
        out, theirs = mha(batch, mask=mask)[0], variants.to_torch(mha)
        same(theirs(batch, batch, batch, key_padding_mask=~mask[:, 0, 0])[0], out)
        for row, (place, want) in enumerate(zip(places, alone, strict=True)):
            same(out[row : row + 1, place], want)
    assert torch.equal(masks.padding_mask(lengths, S), masks.padding_mask(lengths, S, side="right"))


def test_both_masks_must_allow_it():
    causal, lengths = seen(S, S), [4, S, 0]
    both = masks.combine_masks(causal, masks.padding_mask(lengths, S))
    assert both.shape == (3, 1, S, S)
    for b, t, s in torch.cartesian_prod(*map(torch.arange, (3, S, S))).tolist():
        assert both[b, 0, t, s] == (causal[t, s] and s < lengths[b])


# Which test must catch each wrong line: {the test: {what is wrong: (function, old, new)}}.
WRONG = {
    test_written_masks_mean_the_same_to_pytorch: {
        "both ways inverted": (
            masks.from_attend,
            "~mask if convention in",
            "mask if convention in",
        ),
        "sdpa inverted": (masks.from_attend, "in INVERTED", "in (*INVERTED, 'sdpa')"),
    },
    test_alignments_are_those_of_pytorch: {
        "top left is bottom right": (masks.top_left_causal_mask, "tril()", "tril(keys - queries)"),
        "bottom right is top left": (masks.causal_mask_for_cache, "tril(total - new)", "tril()"),
    },
    test_padded_sentences_attend_as_they_do_alone: {
        "padding on the other side": (masks.padding_mask, 'if side == "right"', 'if side == "left"')
    },
}


@pytest.mark.filterwarnings("ignore")
@wrong_versions(WRONG)
def test_wrong_lines_disagree(check, edit):
    assert fails_with(check, *edit)


ERRORS = {
    "combine_masks: causal has the wrong S. expected (S=7, S'=7), got (S=5, S'=7)":
        lambda: masks.combine_masks(seen(T, S), masks.padding_mask([S], S)),
    "combine_masks: padding has the wrong S. expected (B, 1, 1, S=7), got (B=1, 1, 1, S=5)":
        lambda: masks.combine_masks(masks.causal_mask(S), masks.padding_mask([T], T)),
    "combine_masks: padding must be bool, True = may attend. expected torch.bool, got "
    "torch.int64, fix: padding.bool()":
        lambda: masks.combine_masks(masks.causal_mask(S), masks.padding_mask([S], S).long()),
    "combine_masks: padding must be on the device of causal. expected cpu, got meta, fix: "
    "padding.to('cpu')":
        lambda: masks.combine_masks(masks.causal_mask(S), masks.padding_mask([S], S).to("meta")),
    "additive_mask: mask must be bool, True = may attend. expected torch.bool, got torch.float32, "
    "fix: mask.bool() if it holds 0 and 1": lambda: masks.additive_mask(torch.ones(3, 3),
        torch.float32),
    "additive_mask: dtype must be able to hold -inf. expected a float dtype, got torch.int64, fix: "
    "dtype=torch.float32": lambda: masks.additive_mask(masks.causal_mask(3), torch.int64),
    "additive_mask: dtype must be able to hold -inf. expected a float dtype, got float32, fix: "
    "dtype=torch.float32":
        lambda: masks.additive_mask(masks.causal_mask(3), "float32"),
    "padding_mask: lengths must have 1 axes. expected "
    "(B), got (1, 2)": lambda: masks.padding_mask([[1, 3]], 3),
    "padding_mask: lengths must be whole numbers from 0 to max_len. expected 0 <= length <= 3, "
    "got [1.0, 2.0]":
        lambda: masks.padding_mask(torch.tensor([1.0, 2.0]), 3),
    "padding_mask: lengths must be whole numbers from 0 to max_len. expected 0 <= length <= 3, "
    "got [-1, 2]":
        lambda: masks.padding_mask([-1, 2], 3),
    "padding_mask: no side has this name. expected right, left, got 'top'":
        lambda: masks.padding_mask([1, 3], 3, side="top"),
    "causal_mask: seq_len must be a positive int. expected "
    "seq_len >= 1, got seq_len=0": lambda: masks.causal_mask(0),
    "causal_mask_for_cache: the new tokens must be among all tokens. expected ints with 1 <= new "
    "<= total, got new=4, total=3": lambda: masks.causal_mask_for_cache(4, 3),
    "causal_mask_for_cache: the new tokens must be among all tokens. expected ints with 1 <= new "
    "<= total, got new=0, total=3": lambda: masks.causal_mask_for_cache(0, 3),
    "causal_mask_for_cache: the new tokens must be among all tokens. expected ints with 1 <= new "
    "<= total, got new=1, total=3.0": lambda: masks.causal_mask_for_cache(1, 3.0),
    "top_left_causal_mask: keys must be a positive int. expected keys >= 1, got keys=0":
        lambda: masks.top_left_causal_mask(3, 0),
    "top_left_causal_mask: queries must be a positive int. expected queries >= 1, got queries=0":
        lambda: masks.top_left_causal_mask(0, 3),
    "from_attend: no convention has this name. expected bool, sdpa, multihead, seaborn, additive, "
    "got 'keras'":
        lambda: masks.from_attend(masks.causal_mask(3), "keras"),
    "to_attend: no convention has this name. expected bool, sdpa, multihead, seaborn, additive, "
    "got 'keras'":
        lambda: masks.to_attend(masks.causal_mask(3), "keras"),
    "to_attend: mask must be bool in the convention 'sdpa'. expected torch.bool, got "
    "torch.float32, fix: convention=\"additive\" if it holds 0 and -inf, mask.bool() if it holds "
    "0 and 1":
        lambda: masks.to_attend(torch.ones(3, 3), "sdpa"),
    "to_attend: mask must be a tensor. expected a torch.Tensor, got list, fix: "
    "torch.as_tensor(mask)":
        lambda: masks.to_attend([[0.0]], "additive"),
    "to_attend: an additive mask must be floating point. expected a float dtype, got torch.bool":
        lambda: masks.to_attend(masks.causal_mask(3), "additive"),
    "from_attend: mask must be bool, True = may attend. expected torch.bool, got torch.float32, "
    "fix: mask.bool() if it holds 0 and 1": lambda: masks.from_attend(torch.ones(3, 3), "sdpa"),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_and_how(message):
    refused(ERRORS[message], message)


@pytest.mark.parametrize(("scores", "meant"), [([-1.5], False), ([-1e4], False),
    ([-10_000.5], True),
                                               ([-1e9], True), ([-1e9, -1.5], False)])  # fmt: skip
def test_only_very_low_numbers_are_taken_for_hidden(scores, meant):
    expected = "expected 0 = may attend, -inf = hidden"
    message = (
        f"to_attend: an additive mask must hold only 0 and -inf. {expected}, got {scores[0]:g} too"
    )
    message += ", fix: mask.masked_fill(mask < -1e4, -math.inf)" if meant else ""
    refused(lambda: masks.to_attend(torch.tensor([0.0, -torch.inf, *scores]), "additive"), message)


def test_masks_are_made_on_the_device_of_what_they_are_made_from(device):
    # every machine has meta, and it shows what a machine without a GPU cannot
    for place in (device, "meta"):
        mask = masks.causal_mask(S, device=place)
        made = [
            mask,
            masks.additive_mask(mask, torch.float16),
            masks.from_attend(mask, "additive"),
            masks.causal_mask_for_cache(T, S, device=place),
            masks.top_left_causal_mask(T, S, device=place),
        ]
        assert {each.device.type for each in made} == {place}
    lengths = torch.tensor([3, 1], device=device)
    assert masks.padding_mask(lengths, S, side="left").device == lengths.device
    with torch.device("meta"):
        assert masks.padding_mask([3, 1], S, device="cpu").device.type == "cpu"


def test_masks_of_any_length_are_made_in_one_graph():
    def made(x):
        tokens = x.size(0)
        return (
            masks.causal_mask(tokens),
            masks.causal_mask_for_cache(2, tokens),
            masks.top_left_causal_mask(2, tokens),
        )

    torch.compiler.reset()
    compiled = torch.compile(made, backend="eager", fullgraph=True)
    x = torch.zeros(5)
    torch._dynamo.mark_dynamic(x, 0)
    for mine, theirs in zip(compiled(x), made(x), strict=True):
        assert torch.equal(mine, theirs)
