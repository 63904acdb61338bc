"""Bad input gets one message in one form; the whole message is what is tested."""

import pickle

import numpy as np
import pytest
import torch
from rewriting import refused

from mha_course import example, widgets
from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError, require, require_float, require_int
from mha_course.masks import causal_mask
from mha_course.tracing import trace
from mha_course.variants import FusedQKV

X = torch.ones(2, 5, 24)
MHA = MultiHeadAttention(24, 4)
CASES = {
    "MultiHeadAttention: num_heads must divide d_model. expected d_model % num_heads == 0, got "
    "d_model=10, num_heads=3, fix: num_heads=2 or 5, or "
    "d_model=9 or 12": lambda: MultiHeadAttention(10, 3),
    "FusedQKV: num_heads must be a positive int. expected num_heads "
    ">= 1, got num_heads=4.0": lambda: FusedQKV(24, 4.0),
    "MultiHeadAttention: query must have 3 axes. expected (B, T, C), got (5, 24), fix: "
    "query.unsqueeze(0), a batch of one": lambda: MHA(X[0]),
    "MultiHeadAttention: query must have the dtype of the weights. expected torch.float32, got "
    "torch.float64, fix: query.to(torch.float32)": lambda: MHA(X.double()),
    "MultiHeadAttention: key has the wrong B and C. expected (B=2, S, C=24), got (B=3, S=7, C=20)":
        lambda: MHA(X, torch.ones(3, 7, 20)),
    "MultiHeadAttention: value has the wrong S. expected (B=2, S=7, C=24), got (B=2, S=5, C=24)":
        lambda: MHA(X, torch.ones(2, 7, 24), X),
    "MultiHeadAttention: mask must be (T, S), or 4-D and broadcastable to (B, H, T, S). expected "
    "(B=2, H=4, T=5, S=5), or its last two axes, got (T=6, S=6)": lambda: MHA(X,
        mask=causal_mask(6)),
    "MultiHeadAttention: mask must be (T, S), or 4-D and broadcastable to (B, H, T, S). expected "
    "(B=2, H=4, T=5, S=5), or its last two axes, got (2, 5, 5), fix: mask.unsqueeze(1), which "
    "gives it a head axis":
        lambda: MHA(X, mask=causal_mask(5).expand(2, 5, 5)),
    "MultiHeadAttention: mask must be on the device of the tokens. expected cpu, got meta, fix: "
    "mask.to('cpu')":
        lambda: MHA(X, mask=causal_mask(5, device="meta")),
    "MultiHeadAttention: query must be a tensor. expected a "
    "torch.Tensor, got NoneType": lambda: MHA(None),
    "MaskedWordModel: ids must be a tensor. expected a torch.Tensor, got ndarray, fix: "
    "torch.as_tensor(ids)": lambda: example.trained_model()(np.array([[5, 6]])),
    "words_of: the sentence must be text. expected words with spaces between, got None":
        lambda: example.load(None),
    "encode: texts must be a list. expected sentences, or lists of their words, got 'the cat', "
    "fix: [texts]": lambda: example.encode("the cat"),
    "trace: fn must be callable. expected a function or a module, got None": lambda: trace(None),
    "ShapeTracer: it draws a trace. expected what trace(fn, …) returns, got NoneType":
        lambda: widgets.ShapeTracer(None),
    "Panel: draw must be callable. expected a function that returns a picture and a sentence, got "
    "None": lambda: widgets.Panel(None),
    "here: that must hold. expected a, got b, fix: c":
        lambda: require(False, "here", "that must hold", expected="a", got="b", fix="c"),
    "here: n must be a positive int. expected n >= 1, got n=True": lambda: require_int("here", "n",
        True),
    "here: n must be a whole number. expected n >= 2, got n='2'": lambda: require_int("here", "n",
        "2", least=2),
    "here: x must be on the device of the weights. expected cpu, got meta, fix: x.to('cpu')":
        lambda: require_float("here", {"the weights": X, "x": X.to("meta")}),
}  # fmt: skip


@pytest.mark.parametrize("message", CASES)
def test_the_whole_message(message):
    refused(CASES[message], message)


@pytest.mark.parametrize(("width", "heads"), [(10, 3), (24, 7), (12, 5), (7, 2), (30, 4)])
def test_every_fix_works(width, heads):
    with pytest.raises(ShapeError) as caught:
        MultiHeadAttention(width, heads)
    by_heads, by_width = caught.value.fix.split(", or d_model=")
    for better in by_heads.removeprefix("num_heads=").split(" or "):
        MultiHeadAttention(width, int(better))
    for better in by_width.split(" or "):
        MultiHeadAttention(int(better), heads)


def test_errors_can_be_sent_and_copied():
    with pytest.raises(ShapeError) as caught:
        causal_mask(0)
    error, again = caught.value, pickle.loads(pickle.dumps(caught.value))
    assert (str(again), vars(again)) == (str(error), vars(error))
    assert (error.place, error.expected, error.got, error.fix) == (
        "causal_mask",
        "seq_len >= 1",
        "seq_len=0",
        None,
    )
    assert isinstance(error, ValueError)


def test_autocast_is_left_alone(device):
    mha, x = MultiHeadAttention(24, 4).to(device), X.to(device)
    with torch.autocast(device, torch.bfloat16):
        assert mha(mha(x)[0])[0].dtype == torch.bfloat16
        assert FusedQKV(24, 4).to(device)(mha(x)[0]).dtype == torch.bfloat16
