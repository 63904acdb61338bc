"""Attention functions inside the models of transformers, against its own "eager"."""

import functools

import pytest
import torch
from rewriting import refused
from torch import nn
from torch.nn import functional as F
from transformers import AttentionInterface, AutoModel, AutoModelForCausalLM

from mha_course.attention import MultiHeadAttention, attention, masked_softmax, repeat_kv
from mha_course.errors import ShapeError
from mha_course.lessons.l18_real_models.families import (
    FAMILIES,
    SHARED,
    WITH_MORE,
    Family,
    config_of,
)
from mha_course.masks import additive_mask, causal_mask
from mha_course.models import seeded
from mha_course.models.published import plug_in

B, H, G, T, S, D, E = 2, 4, 2, 5, 7, 6, 3
TEXT = {name: family for name, family in FAMILIES.items() if name not in ("ViT", "Whisper")} | {
    "Granite": Family("granite", "", SHARED | {"attention_multiplier": 0.2}),
    "Cohere": Family("cohere", "", SHARED),
    "GPT-NeoX": Family("gpt_neox", ""),
    "RoBERTa": Family("roberta", ""),
    "SmolLM 3": Family("smollm3", "", SHARED),
    "Mixtral": Family("mixtral", "", SHARED | {"num_local_experts": 2, "sliding_window": 4}),
}
DECODERS = [name for name in TEXT if name not in ("BERT", "RoBERTa")]
IDS = torch.randint(3, 97, (2, 9), generator=torch.Generator().manual_seed(1))  # (B, S)
PADDING = {  # which tokens are none
    "none": torch.ones(2, 9).bool(),
    "right": torch.arange(9) < torch.tensor([[9], [6]]),
    "left": torch.arange(9) >= torch.tensor([[0], [3]]),
}


def saved(family, folder, auto=AutoModel):
    """Write a model with random numbers, as transformers does, and return its folder."""
    with seeded(0):
        auto.from_config(config_of(family)).save_pretrained(folder)
    return folder


def opened(folder, implementation, auto=AutoModel):
    return auto.from_pretrained(folder, attn_implementation=implementation).eval()


def counting(function):
    """Return a function that does the same, and the list to which it adds each mask it gets."""
    masks = []

    @functools.wraps(function)
    def counted(q, k, v, mask=None, **more):
        masks.append(mask)
        return function(q, k, v, mask, **more)

    return counted, masks


def assert_equal(mine, theirs, tolerance=1e-5):
    assert (mine - theirs).abs().max() <= tolerance * max(1.0, theirs.abs().max().item())


@torch.no_grad()
@pytest.mark.parametrize("name", TEXT)
def test_a_text_model_gives_what_it_gives_on_eager(name, tmp_path):
    folder = saved(TEXT[name], tmp_path)
    counted, masks = counting(attention)
    mine, theirs = opened(folder, plug_in(counted)), opened(folder, "eager")
    for real in PADDING.values():
        masks.clear()
        got, want = (
            model(IDS, attention_mask=real.long(), output_attentions=True)
            for model in (mine, theirs)
        )
        assert len(masks) == mine.config.num_hidden_layers
        assert_equal(got.last_hidden_state[real], want.last_hidden_state[real])
        rows = real[:, None].expand(-1, 4, -1)  # what padding itself sees does not matter
        for weights, wanted in zip(got.attentions, want.attentions, strict=True):
            assert_equal(weights[rows], wanted[rows])
        if name in DECODERS:
            assert all(mask.dtype == torch.bool and mask.shape[1:] == (1, 9, 9) for mask in masks)
            assert all(mask.any(-1).all() for mask in masks)


@torch.no_grad()
@pytest.mark.parametrize("name", DECODERS)
def test_with_its_cache_a_model_writes_the_same_tokens(name, tmp_path):
    folder = saved(TEXT[name], tmp_path, AutoModelForCausalLM)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False,
               "attention_mask": PADDING["left"].long(), "output_logits": True,
               "return_dict_in_generate": True}  # fmt: skip
    counted, masks = counting(attention)
    mine, theirs = (
        opened(folder, implementation, AutoModelForCausalLM).generate(IDS, **options)
        for implementation in (plug_in(counted), "eager")
    )
    assert torch.equal(mine.sequences, theirs.sequences)
    for logits, wanted in zip(mine.logits, theirs.logits, strict=True):
        assert_equal(logits, wanted)
    assert [mask.size(2) for mask in masks] == [9, 9, *[1] * 10]  # two layers; only what is new


@torch.no_grad()
def test_pictures_have_no_mask_and_sound_is_attended_to_from_text(tmp_path):
    generator = torch.Generator().manual_seed(0)
    given = {
        "ViT": ({"pixel_values": torch.rand(2, 3, 12, 12, generator=generator)}, 2),
        "Whisper": ({"input_features": torch.randn(2, 8, 16, generator=generator),
                     "decoder_input_ids": IDS}, 6),
    }  # fmt: skip
    for name, (inputs, layers) in given.items():
        folder = saved(FAMILIES[name], tmp_path / name)
        counted, masks = counting(attention)
        got, want = (
            opened(folder, implementation)(**inputs).last_hidden_state
            for implementation in (plug_in(counted), "eager")
        )
        assert len(masks) == layers
        assert_equal(got, want)
    assert [mask is None for mask in masks].count(False) == 2  # the causal ones of the decoder


def attend_more(q, k, v, mask=None, softcap=None, position_bias=None, s_aux=None):
    scores = q @ k.mT / q.size(-1) ** 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    if s_aux is not None:
        scores = torch.cat((scores, s_aux.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)), -1)
        mask = F.pad(mask, (0, 1), value=True)
    weights = masked_softmax(scores, mask)[..., : k.size(2)]
    return weights @ v, weights


REFUSED = {
    "Gemma 2": ("Gemma2Attention", "softcap", "a soft cap on its scores"),
    "T5": ("T5Attention", "position_bias", "a bias for its scores"),
    "gpt-oss": ("GptOssAttention", "s_aux", "a sink in each head"),
}


@torch.no_grad()
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_model_gives_besides_is_refused_or_taken(name, tmp_path):
    place, parameter, what = REFUSED[name]
    folder = saved(WITH_MORE[name], tmp_path)
    inputs = {"input_ids": IDS, "attention_mask": PADDING["right"].long()}
    inputs |= {"decoder_input_ids": IDS} if name == "T5" else {}
    message = (
        f"{place}: this model has {what}, which attention does not take. "
        f"expected a parameter {parameter}, got attention(q, k, v, mask), "
        f"fix: def attention(q, k, v, mask=None, {parameter}=None)"
    )
    refused(lambda: opened(folder, plug_in(attention))(**inputs), message)
    with pytest.raises(ShapeError, match=f"a parameter {parameter}"):  # it would ignore what comes
        opened(folder, plug_in(lambda q, k, v, mask=None, **others: attention(q, k, v, mask)))(
            **inputs
        )
    counted, masks = counting(attend_more)
    mine, theirs = (
        opened(folder, implementation)(**inputs) for implementation in (plug_in(counted), "eager")
    )
    assert len(masks) == (6 if name == "T5" else 2)
    kept = slice(None) if name == "T5" else PADDING["right"]
    assert_equal(mine.last_hidden_state[kept], theirs.last_hidden_state[kept])


# What a layer passes on, called directly


def layer(function):
    """Return the function that transformers calls as a layer's attention."""
    return functools.partial(AttentionInterface()[plug_in(function)], nn.Module())


def heads(draw):
    return draw(B, H, T, D), draw(B, G, S, D, seed=1), draw(B, G, S, E, seed=2)


@pytest.mark.parametrize("kind", ["float", "bool", "longer than the keys", "one for all texts"])
def test_masks_of_every_kind_become_bool(kind, draw):
    q, k, v = heads(draw)
    allowed = draw(B, 1, T, S, seed=3) > 0
    allowed[0, 0, 2] = False  # a row that sees nothing is passed on as one that sees all
    if kind == "one for all texts":
        allowed = allowed[:1]
    mask = allowed if kind == "bool" else additive_mask(allowed, q.dtype)
    if kind == "longer than the keys":
        mask = F.pad(mask, (0, 3))
    counted, masks = counting(attention)
    context, weights = layer(counted)(q, k, v, mask)
    handed = allowed | ~allowed.any(-1, keepdim=True)
    assert torch.equal(masks[0], handed)
    want = attention(q, repeat_kv(k, H), repeat_kv(v, H), handed)
    assert context.shape == (B, T, H, E)
    assert torch.allclose(context.transpose(1, 2), want[0])
    assert torch.allclose(weights, want[1])


def test_flags_numbers_and_position_ids_are_ignored_and_tensors_are_not(draw):
    q, k, v = heads(draw)
    forward = layer(attention)
    given = {"is_causal": True, "sliding_window": 2, "use_cache": True, "softcap": None,
             "position_ids": torch.arange(T)}  # fmt: skip
    assert torch.equal(forward(q, k, v, None, **given)[0], forward(q, k, v)[0])
    message = (
        "Module: this model has a tensor “slopes”, which attention does not take. "
        "expected a parameter slopes, got attention(q, k, v, mask), "
        "fix: def attention(q, k, v, mask=None, slopes=None)"
    )
    refused(lambda: forward(q, k, v, None, slopes=torch.ones(H)), message)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back_as_it_came(dtype, draw):
    q, k, v = (x.to(dtype) for x in heads(draw))
    mask = additive_mask(causal_mask(S)[-T:], dtype)[None, None]
    want = attention(q.double(), repeat_kv(k, H).double(), repeat_kv(v, H).double(), mask == 0)[0]
    for function in (
        attention,
        lambda q, *rest: attention(q.float(), *map(torch.Tensor.float, rest[:2]), rest[2]),
    ):
        context, _ = layer(function)(q, k, v, mask)
        assert context.dtype == dtype
        assert (context.transpose(1, 2) - want).abs().max() < 0.03


def test_context_alone_is_enough_and_must_fit(draw):
    q, k, v = heads(draw)
    context, weights = layer(F.scaled_dot_product_attention)(q, k, v)  # it has no signature
    assert weights is None
    assert torch.allclose(context, layer(attention)(q, k, v)[0])
    merged = lambda q, k, v, mask=None: (q @ k.mT @ v).transpose(1, 2)  # noqa: E731
    message = (
        "attention: context has the wrong H and T. expected (B=2, H=4, T=5, E=3), "
        "got (B=2, H=5, T=4, E=3)"
    )
    refused(lambda: layer(merged)(q, k, v), message)


# Names


def test_each_call_has_a_name_of_its_own_and_a_name_one_function():
    def other(q, k, v, mask=None):
        return v

    assert len({plug_in(attention), plug_in(attention), plug_in(other)}) == 3
    assert plug_in(attention, "mine") == plug_in(attention, "mine") == "mine"
    message = (
        "plug_in: the name is in use, and models that are open would change. expected a new name, "
        "got 'mine', fix: plug_in(attention) without a name makes a new one"
    )
    refused(lambda: plug_in(other, "mine"), message)


@pytest.mark.parametrize(
    "name",
    ["sdpa", "my_sdpa", "Flash", "flex_attention", "eager2", "paged|own", "owner/kernel", ""],
)
def test_names_of_transformers_are_refused(name):
    message = "plug_in: transformers would take this name for an implementation of its own. "
    refused(
        lambda: plug_in(attention, name),
        f"{message}expected a name without sdpa, flash, flex, eager, paged|, /, got {name!r}",
    )


@pytest.mark.parametrize("thing", [MultiHeadAttention(24, 4), MultiHeadAttention, None])
def test_what_is_no_function_is_refused(thing):
    message = "plug_in: attention must be a function. expected attention(q, k, v, mask), got a "
    refused(lambda: plug_in(thing), message + type(thing).__name__)
