"""Eight styles, the reference and PyTorch: every pair agrees in values, weights and gradients."""

import itertools

import pytest
import torch
from rewriting import same_when_compiled
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError
from mha_course.lessons.l07_multi_head_attention.styles import (
    STYLES,
    Einsum,
    FusedKernel,
    ListOfHeads,
)
from mha_course.masks import causal_mask, padding_mask
from mha_course.variants import (
    VARIANTS,
    FoldedHeads,
    FusedQKV,
    PermuteView,
    ReturnsWeights,
    SelfAttention,
    SplitCombine,
    from_torch,
    to_torch,
)

B, S, C, H, D = 2, 7, 24, 4, 6
TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6}
CAUSAL, PADDING = causal_mask(S), padding_mask([S, 4], S)


class Recorder(TorchFunctionMode):
    """Keep what every softmax returns."""

    def __init__(self):
        super().__init__()
        self.softmaxes = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax":
            self.softmaxes.append(result)
        return result


def runs(mha, mask_name, mask):
    """Name the ways that take this mask: each maps x to out, with the module it uses."""

    def sdpa(module, x):
        q, k, v = (
            p(x).unflatten(2, (H, D)).transpose(1, 2)
            for p in (module.q_proj, module.k_proj, module.v_proj)
        )
        return module.out_proj(
            F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        )

    def torch_module(module, x):
        ignore = None if mask is None else ~mask.expand(B, H, S, S).reshape(B * H, S, S)
        return module(x, x, x, attn_mask=ignore, average_attn_weights=False)[0]

    ways = {
        "reference": (mha, lambda m, x: m(x, mask=mask)[0]),
        "fused reference": (mha, lambda m, x: m(x, mask=mask, need_weights=False)[0]),
        "SDPA": (mha, sdpa),
        "nn.MultiheadAttention": (to_torch(mha), torch_module),
        "SplitCombine": (SplitCombine.from_reference(mha), lambda m, x: m(x, x, x, mask)),
    }
    if mask_name == "none":
        for cls in (FusedQKV, PermuteView, ListOfHeads):
            ways[cls.__name__] = (cls.from_reference(mha), lambda m, x: m(x))
        ways["ReturnsWeights"] = (ReturnsWeights.from_reference(mha), lambda m, x: m(x)[0])
        if mha.q_proj.bias is None:
            ways["Einsum"] = (Einsum.from_reference(mha), lambda m, x: m(x))
    if mask_name in ("none", "causal"):
        causal = mask_name == "causal"
        ways["FusedKernel"] = (FusedKernel.from_reference(mha), lambda m, x: m(x, is_causal=causal))
    if mask_name in ("none", "causal") and mha.q_proj.bias is None:
        folded = FoldedHeads.from_reference(mha)
        folded.mask = mask_name == "causal"
        ways["FoldedHeads"] = (folded, lambda m, x: m(x))
    return ways


def results(module, run, x, target):
    """Return out, the weights if a softmax shows them, and all gradients."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    with Recorder() as recorder:
        out = run(module, x)
    (out * target).sum().backward()
    found = {"out": out, "gradient of x": x.grad}
    # not those of a single head
    if recorder.softmaxes and recorder.softmaxes[-1].numel() == B * H * S * S:
        found["weights"] = recorder.softmaxes[-1].reshape(B, H, S, S)
    return found | parameter_gradients(module)


def parameter_gradients(module):
    if isinstance(module, nn.MultiheadAttention):
        grads = [*module.in_proj_weight.grad.chunk(3), module.out_proj.weight.grad]
    elif isinstance(module, MultiHeadAttention):
        linears = (module.q_proj, module.k_proj, module.v_proj, module.out_proj)
        grads = [linear.weight.grad for linear in linears]
    elif isinstance(module, FusedQKV | FusedKernel):
        fused, out = module.children()
        grads = [*fused.weight.grad.chunk(3), out.weight.grad]
    elif isinstance(module, ListOfHeads):
        grads = [torch.cat([getattr(head, name).weight.grad for head in module.heads])
                 for name in ("q_proj", "k_proj", "v_proj")]  # fmt: skip
        grads.append(module.out_proj.weight.grad)
    else:
        grads = [getattr(module, name).weight.grad for name in module._targets]
    return {f"gradient of W_{name}": grad for name, grad in zip("QKVO", grads, strict=True)}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask_name", ["none", "causal", "padding"])
def test_every_pair_agrees(mask_name, bias, dtype, device, draw):
    torch.manual_seed(0)
    mha = MultiHeadAttention(C, H, bias=bias).to(device, dtype)
    mask = {"none": None, "causal": CAUSAL.to(device), "padding": PADDING.to(device)}[mask_name]
    x, target = (draw(B, S, C, seed=n, dtype=dtype, device=device) for n in (1, 2))
    found = {
        name: results(m, run, x, target) for name, (m, run) in runs(mha, mask_name, mask).items()
    }
    assert sum("weights" in each for each in found.values()) >= 2
    for (one, mine), (other, theirs) in itertools.combinations(found.items(), 2):
        for what in mine.keys() & theirs.keys():
            scale = theirs[what].abs().max().clamp(min=1)
            difference = float(((mine[what] - theirs[what]).abs().max() / scale).detach())
            assert difference < TOLERANCE[dtype], f"{one} and {other} differ in {what}"


def test_self_attention_is_one_head_without_output_projection(draw):
    single = SelfAttention(C).double()
    mha = MultiHeadAttention(C, 1, bias=False).double()
    for target, source in zip((mha.q_proj, mha.k_proj, mha.v_proj), single.children(), strict=True):
        target.weight = source.weight
    nn.init.eye_(mha.out_proj.weight)
    x = draw(B, S, C)
    context, weights = single(x)
    out, want = mha(x)
    assert weights.shape == (B, S, S)
    assert torch.allclose(context, out)
    assert torch.allclose(weights, want[:, 0])
    assert not hasattr(single, "bias")
    assert "SelfAttention" not in VARIANTS


@pytest.mark.parametrize(
    "make", [lambda m: m, lambda m: m.int(), lambda m: m.float(), lambda m: m[0, 0].long()]
)
def test_split_combine_takes_zero_as_hidden_in_any_dtype(make, draw):
    split, x = SplitCombine(C, H).double(), draw(B, S, C)
    mask = CAUSAL.expand(B, 1, S, S)
    assert torch.equal(split(x, x, x, make(mask)), split(x, x, x, mask))
    hidden = mask.clone()
    hidden[:, :, 2] = False
    context, weights = split.scaled_dot_product_attention(
        *(draw(B, H, S, D, seed=n) for n in range(3)), hidden
    )
    assert not weights[:, :, 2].any()
    assert not context[:, :, 2].any()


def test_split_combine_attends_across(draw):
    mha = MultiHeadAttention(C, H).double()
    x, memory, values = draw(B, 5, C), draw(B, S, C, seed=1), draw(B, S, C, seed=2)
    assert torch.allclose(
        SplitCombine.from_reference(mha)(x, memory, values), mha(x, memory, values)[0]
    )


def test_folded_heads_has_no_place_for_a_bias():
    with pytest.raises(ShapeError, match="q, k and v have no bias in this style"):
        FoldedHeads.from_reference(MultiHeadAttention(C, H))


@pytest.mark.parametrize("bias", [True, False])
def test_pytorchs_module_and_back(bias, draw):
    mha = MultiHeadAttention(C, H, bias=bias, dropout=0.3).double().eval()
    back = from_torch(to_torch(mha))
    x = draw(B, S, C)
    assert torch.equal(back(x)[0], mha(x)[0])
    assert (back.dropout, back.training, back.q_proj.weight.dtype) == (0.3, False, torch.float64)


@pytest.mark.parametrize("extra", [{"kdim": 8}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_what_pytorchs_module_has_more_is_refused(extra):
    with pytest.raises(ShapeError, match="the module has parts the reference lacks"):
        from_torch(nn.MultiheadAttention(C, H, **extra))


def test_signatures_and_parameter_names():
    linears = {
        FusedQKV: ["Wqkv", "Wo"],
        ReturnsWeights: ["W_q", "W_k", "W_v", "fc_out"],
        SplitCombine: ["W_q", "W_k", "W_v", "W_o"],
        PermuteView: ["q_linear", "k_linear", "v_linear", "out_linear"],
        FoldedHeads: ["toqueries", "tokeys", "tovalues", "unifyheads"],
    }
    assert list(VARIANTS.values()) == list(linears)
    for cls, names in linears.items():
        module = cls(C, H)
        assert [name for name, _ in module.named_children()] == names
        assert not list(module.buffers())
    assert FoldedHeads(8).num_heads == 4
    assert FusedQKV(C, H, bias=False).Wo.bias is FoldedHeads(C, H).toqueries.bias is None
    assert FoldedHeads(C, H).unifyheads.bias is not None


@pytest.mark.parametrize("cls", STYLES.values())
def test_bad_widths_and_inputs_name_the_style(cls):
    with pytest.raises(ShapeError, match=rf"^{cls.__name__}: num_heads must divide"):
        cls(10, 3)
    module, bad = cls(C, H), torch.ones(S, C)
    with pytest.raises(ShapeError, match=rf"^{cls.__name__}: \w+ must have 3 axes"):
        module(bad, bad, bad) if cls is SplitCombine else module(bad)


def test_a_bias_in_one_place_only_goes_to_pytorch_and_back(draw):
    mha, x = MultiHeadAttention(C, H).double(), draw(B, S, C)
    nn.init.normal_(mha.out_proj.bias)
    mha.q_proj.bias = mha.k_proj.bias = mha.v_proj.bias = None
    assert torch.allclose(to_torch(mha)(x, x, x)[0], mha(x)[0])
    assert torch.allclose(from_torch(to_torch(mha))(x)[0], mha(x)[0])
    assert torch.allclose(FusedQKV.from_reference(mha)(x), mha(x)[0])
    assert torch.allclose(FoldedHeads.from_reference(mha)(x), mha(x)[0])


def test_dropout_of_the_fused_kernel_is_for_training_alone(draw):
    module = FusedKernel.from_reference(MultiHeadAttention(C, H, dropout=0.5).double())
    x = draw(B, S, C)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


# Compiled


def compiled_cases():
    """Give each style its module and what it is called with."""
    mask = padding_mask([S, 0], S) & causal_mask(S)
    yield "SelfAttention", lambda: SelfAttention(C), 1, ()
    for name, cls in STYLES.items():
        yield name, lambda cls=cls: cls(C, H), 3 if cls is SplitCombine else 1, ()
    yield "SplitCombine with a mask", lambda: SplitCombine(C, H), 3, (mask,)
    yield "SplitCombine with numbers", lambda: SplitCombine(C, H), 3, (mask.float(),)
    yield "FoldedHeads, causal", lambda: FoldedHeads(C, H, mask=True), 1, ()


@pytest.mark.parametrize(
    ("make", "count", "masks"), [pytest.param(*case, id=name) for name, *case in compiled_cases()]
)
def test_every_style_compiles_as_one_graph(make, count, masks, draw):
    torch.manual_seed(0)
    same_when_compiled(make().double(), [draw(B, S, C).requires_grad_()] * count + list(masks))
