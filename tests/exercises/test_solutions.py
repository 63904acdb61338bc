"""References against PyTorch's own modules, float64 and properties, which known mistakes must fail."""

import itertools
import math
import types

import pytest
import seaborn as sns
import solutions
import torch
from rewriting import TOLERANCE, Largest, fails_with, numbers, refused, same
from torch import nn
from torch.nn import functional as F

from mha_course import attention, caching, flash, masks, positions
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.diagnose import ways

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
DTYPES = tuple(TOLERANCE)


def weights_of(module):
    """Return w_q, w_k, w_v, w_o of an nn.MultiheadAttention."""
    return *module.in_proj_weight.detach().chunk(3), module.out_proj.weight.detach()


def torch_module(dtype):
    """Make PyTorch's module without bias."""
    torch.manual_seed(1)
    return nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)


# Each check takes a dtype, and holds the function that it is listed under in CHECKS against an authority.


def leaks_are_those_of_the_mask(dtype):
    x, module = numbers(B, S, C, dtype=dtype), torch_module(dtype)
    for attend in (masks.causal_mask(S), masks.causal_mask(S).triu(-2), numbers(S, S) > 0):
        visible = attend | torch.eye(S, dtype=torch.bool)
        found = solutions.find_leaks(lambda x, hidden=~visible: module(x, x, x, attn_mask=hidden)[0], x)
        assert torch.equal(found, visible)


def rope_is_a_product_of_complex_numbers(dtype):
    x, places = numbers(B, H, S, D, dtype=dtype), torch.tensor([0, 3, 4, 9, 100, 5000, 2])
    for base in (10000.0, 50.0):
        angles = places.double()[:, None] * torch.tensor(
            [base ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64
        )
        pairs = torch.complex(x[..., : D // 2].double(), x[..., D // 2 :].double())
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        want = torch.cat((turned.real, turned.imag), dim=-1)
        same(solutions.rope(x, places, base) if base != 10000.0 else solutions.rope(x, places), want, dtype)


def latent_scores_equal_those_of_the_keys_never_made(dtype):
    width = 9
    q, w_uk, latent = (
        numbers(*shape, seed=at, dtype=dtype) for at, shape in enumerate(((B, H, T, D), (H, D, width), (B, S, width)))
    )
    k = torch.stack([F.linear(latent, w_uk[head]) for head in range(H)], dim=1)  # (B, H, S, D)
    want = torch.stack([q[:, :, t : t + 1].mul(k).sum(-1) for t in range(T)], dim=2)
    same(solutions.latent_scores(q, w_uk, latent), want, dtype)


def cross_attention_equals_torchs(dtype):
    module, x, memory = torch_module(dtype), numbers(B, T, C, dtype=dtype), numbers(B, S, C, seed=1, dtype=dtype)
    for attend in (None, masks.padding_mask([S, 4], S), numbers(B, 1, T, S, seed=2) > -1):
        hidden = None if attend is None else ~attend.expand(B, H, T, S).reshape(B * H, T, S)
        out, weights = module(x, memory, memory, attn_mask=hidden, average_attn_weights=False)
        mine, my_weights = solutions.cross_attention(x, memory, *weights_of(module), H, attend)
        same(mine, out.detach(), dtype)
        same(my_weights, weights.detach(), dtype)
    same(solutions.cross_attention(x, x, *weights_of(module), H)[0],
         solutions.multi_head_attention(x, *weights_of(module), H)[0], dtype)  # fmt: skip


def the_fused_call_equals_torchs_module_causal_and_not(dtype):
    module, x = torch_module(dtype), numbers(B, S, C, dtype=dtype)
    w_qkv, w_o = module.in_proj_weight.detach(), module.out_proj.weight.detach()
    for causal, hidden in ((False, None), (True, ~masks.causal_mask(S))):
        want = module(x, x, x, attn_mask=hidden)[0].detach()
        same(solutions.fused_mha(x, w_qkv, w_o, H, causal), want, dtype)
    same(solutions.fused_mha(x, w_qkv, w_o, H), module(x, x, x)[0].detach(), dtype)


def the_fused_call_holds_no_table_of_all_pairs(dtype):
    x, w_qkv, w_o = (numbers(*shape, dtype=dtype) for shape in ((1, 600, 8), (24, 8), (8, 8)))
    with Largest() as largest:
        solutions.fused_mha(x, w_qkv, w_o, 2, True)
    assert largest.values == x.size(1) * w_qkv.size(0)


def layer_norm_equals_torchs(dtype):
    x, gamma, beta = 3 * numbers(B, S, C, dtype=dtype) + 2, numbers(C, seed=1, dtype=dtype), numbers(C, seed=2)
    beta = beta.to(dtype)
    for eps in ((), (0.5,)):
        norm = nn.LayerNorm(C, *eps, dtype=dtype)
        norm.load_state_dict({"weight": gamma, "bias": beta})
        same(solutions.layer_norm(x, gamma, beta, *eps), norm(x).detach(), dtype)


def encoder_block_equals_torchs_layer(dtype):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(C, H, 40, 0.0, F.gelu, batch_first=True, norm_first=True, dtype=dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.3)
    x = numbers(B, S, C, dtype=dtype)
    before = x.clone()
    got = solutions.encoder_block(
        x,
        lambda y: layer.self_attn(y, y, y)[0],
        lambda y: layer.linear2(F.gelu(layer.linear1(y))),
        layer.norm1,
        layer.norm2,
    )
    same(got.detach(), layer(x).detach(), dtype)
    assert torch.equal(x, before)


def patches_equal_unfolds(dtype):
    images = numbers(B, 3, 8, 20, dtype=dtype)
    for patch_size in (2, 4):
        want = nn.functional.unfold(images, patch_size, stride=patch_size).transpose(1, 2)
        assert torch.equal(solutions.patchify(images, patch_size), want)
    kernels = numbers(C, 3, 4, 4, seed=1, dtype=dtype)
    convolved = F.conv2d(images, kernels, stride=4).flatten(2).transpose(1, 2)
    same(solutions.patchify(images, 4) @ kernels.flatten(1).T, convolved, dtype)


def the_class_token_is_first_for_every_image(dtype):
    patches, token = numbers(B, S, C, dtype=dtype), numbers(C, seed=1, dtype=dtype).requires_grad_()
    got = solutions.add_class_token(patches, token)
    assert got.shape == (B, S + 1, C)
    for b in range(B):
        assert torch.equal(got[b, 0], token)
        assert torch.equal(got[b, 1:], patches[b])
    got.sum().backward()
    assert torch.equal(token.grad, torch.full_like(token, B))


def targets_are_what_comes_next(dtype):
    ids = torch.arange(B * S).view(B, S)  # each number is followed by the next
    inputs, targets = solutions.next_token_targets(ids)
    assert inputs.shape == (B, S - 1)
    assert torch.equal(inputs + 1, targets)
    assert torch.equal(inputs[:, 0], ids[:, 0])


def greedy_text_follows_its_model(dtype):
    words = 11
    table = numbers(words, words, dtype=dtype)
    pairs = numbers(words, words, words, seed=1, dtype=dtype).requires_grad_()

    def bigram(ids):
        return table[ids]

    def trigram(ids):
        return pairs[ids.roll(1, 1), ids]

    start = torch.tensor([[1, 2, 3], [4, 5, 6]])
    for model, follow in ((bigram, lambda a, b: table[b]), (trigram, lambda a, b: pairs[a, b])):
        got = solutions.generate(model, start, 6)
        assert got.dtype == torch.long
        assert got.shape == (2, 9)
        assert torch.equal(got[:, :3], start)
        for sentence in got.tolist():
            for a, b, c in zip(sentence[1:], sentence[2:], sentence[3:], strict=False):
                assert c == int(follow(a, b).argmax())
        assert torch.equal(solutions.generate(model, solutions.generate(model, start, 2), 4), got)
    assert torch.equal(solutions.generate(bigram, start, 0), start)
    graphs = []
    solutions.generate(lambda ids: graphs.append(trigram(ids)) or graphs[-1], start, 2)
    assert not any(logits.requires_grad for logits in graphs)


def probabilities_are_those_of_the_likeliest_words_alone(dtype):
    logits = numbers(5, 11, dtype=dtype)
    for temperature in (0.3, 1.0, 4.0):
        for top_k in (1, 4, 11, None):
            got = solutions.next_token_probabilities(logits, temperature, top_k)
            same(got.sum(-1), torch.ones(5, dtype=dtype), dtype)
            for row, shares in zip(logits, got, strict=True):
                kept = row.argsort(descending=True)[:top_k]
                assert torch.equal(shares.nonzero().flatten(), kept.sort().values)
                odds = (shares[kept] / shares[kept[0]]).log() * temperature
                same(odds, row[kept] - row[kept[0]], dtype)


def ablation_equals_an_output_projection_without_those_columns(dtype):
    context, w_o = numbers(B, H, S, D, dtype=dtype), numbers(C, C, seed=1, dtype=dtype)
    before = context.clone()
    for heads in ([], [2], [0, 3], list(range(H))):
        cut = w_o.clone()
        for head in heads:
            cut[:, head * D : (head + 1) * D] = 0
        got = solutions.ablate_heads(context, heads)
        same(attention.merge_heads(got) @ w_o.T, attention.merge_heads(context) @ cut.T, dtype)
        assert torch.equal(context, before)
        assert got.data_ptr() != context.data_ptr()


def other_weights_give_the_same_context(dtype):
    for tokens, width in ((9, 3), (8, 6), (12, 6), (40, 12)):
        for seed in range(5):
            weights = (numbers(T, tokens, seed=seed) * (seed > 0)).softmax(-1).to(dtype)  # the first ones uniform
            v = numbers(tokens, width, seed=seed + 9, dtype=dtype)
            before = weights.clone()
            got = solutions.other_weights(weights, v)
            assert torch.equal(weights, before)
            same(got @ v, weights @ v, dtype)
            same(got.sum(-1), torch.ones(T), dtype)
            assert (got >= 0).all()
            assert ((got - weights).abs().sum(-1) > 0.02).all()  # every row
            change = (got - weights).double()
            null = torch.linalg.svd(torch.cat((v, torch.ones_like(v[:, :1])), 1).double().T).Vh[width + 1 :]
            assert torch.allclose(change @ null.T @ null, change, atol=1e-6)


def other_weights_leave_hidden_keys_hidden(dtype):
    for tokens, width in ((9, 3), (5, 3), (8, 6)):
        hidden = ~masks.causal_mask(tokens)
        weights = numbers(tokens, tokens, dtype=dtype).masked_fill(hidden, -math.inf).softmax(-1)
        v = numbers(tokens, width, seed=1, dtype=dtype)
        got = solutions.other_weights(weights, v)
        assert not got[hidden].any()
        same(got @ v, weights @ v, dtype)
        same(got[: width + 1], weights[: width + 1], dtype)  # too few tokens to move among
        assert ((got - weights).abs().sum(-1)[width + 1 :] > 0.02).all()
        repeated = v[:1].expand(tokens, -1)  # equal values: any weights do
        same(solutions.other_weights(weights, repeated) @ repeated, weights @ repeated, dtype)


def relations_are_means_of_single_weights(dtype):
    weights = numbers(H, S, S, dtype=dtype).softmax(-1)
    pairs = [(1, 0), (4, 2), (4, 6), (1, 0)]
    want = [math.fsum(float(weights[head, t, s]) for t, s in pairs) / len(pairs) for head in range(H)]
    same(solutions.relation_score(weights, pairs), torch.tensor(want, dtype=torch.float64), dtype)
    same(solutions.relation_score(weights, [(3, 5)]), weights[:, 3, 5], dtype)


def stored_as_gpt2(module):
    """Return the parameters of an nn.MultiheadAttention under the names, and in the layout, of a GPT-2 file."""
    c_attn = {"c_attn.weight": module.in_proj_weight.T, "c_attn.bias": module.in_proj_bias}
    c_proj = {"c_proj.weight": module.out_proj.weight.T, "c_proj.bias": module.out_proj.bias}
    return {name: x.detach().contiguous() for name, x in (c_attn | c_proj).items()}


def a_layer_of_gpt2_equals_torchs_module(dtype):
    torch.manual_seed(1)
    module = nn.MultiheadAttention(C, H, batch_first=True, dtype=dtype)
    for bias in (module.in_proj_bias, module.out_proj.bias):
        nn.init.normal_(bias)
    state, x = stored_as_gpt2(module), numbers(B, S, C, dtype=dtype)
    for got, want in zip(solutions.gpt2_qkv(state["c_attn.weight"]), module.in_proj_weight.chunk(3), strict=True):
        assert torch.equal(got, want)
    want = module(x, x, x, attn_mask=~masks.causal_mask(S), need_weights=False)[0]
    same(solutions.gpt2_attention(x, state, H), want, dtype)


def half_split_rows_turn_as_interleaved_ones(dtype):
    """With reordered rows for q and k, rope makes the scores that rope_interleaved makes with the original ones."""
    x, places = numbers(B, S, C, dtype=dtype), torch.arange(S)
    originals = [numbers(C, C, seed=seed, dtype=dtype) for seed in (1, 2)]

    def scores(turn, weights):
        q, k = (turn(attention.split_heads(x @ weight.T, H), places) for weight in weights)
        return q @ k.mT

    reordered = [solutions.to_half_split(weight, H) for weight in originals]
    same(scores(positions.rope, reordered), scores(positions.rope_interleaved, originals), dtype)
    assert torch.equal(reordered[0][: D // 2], originals[0][:D:2])


def contributions_are_the_parts_of_the_output(dtype):
    """Keep one weight alone, and let the module's own steps make the output: its length. All parts sum to the whole."""
    weights, v = numbers(H, T, S, dtype=dtype).softmax(-1), numbers(H, S, D, seed=1, dtype=dtype)
    w_o = numbers(C, C, seed=2, dtype=dtype)
    got, total = solutions.contribution_norms(weights, v, w_o), torch.zeros(1, T, C, dtype=dtype)
    for head, key in itertools.product(range(H), range(S)):
        alone = torch.zeros_like(weights)
        alone[head, :, key] = weights[head, :, key]
        part = attention.merge_heads((alone @ v)[None]) @ w_o.T  # (1, T, C)
        same(got[head, :, key], part[0].norm(dim=-1), dtype)
        total += part
    same(total, attention.merge_heads((weights @ v)[None]) @ w_o.T, dtype)


CHECKS = {
    "find_leaks": (leaks_are_those_of_the_mask,),
    "rope": (rope_is_a_product_of_complex_numbers,),
    "latent_scores": (latent_scores_equal_those_of_the_keys_never_made,),
    "cross_attention": (cross_attention_equals_torchs,),
    "fused_mha": (the_fused_call_equals_torchs_module_causal_and_not, the_fused_call_holds_no_table_of_all_pairs),
    "layer_norm": (layer_norm_equals_torchs,),
    "encoder_block": (encoder_block_equals_torchs_layer,),
    "patchify": (patches_equal_unfolds,),
    "add_class_token": (the_class_token_is_first_for_every_image,),
    "next_token_targets": (targets_are_what_comes_next,),
    "generate": (greedy_text_follows_its_model,),
    "next_token_probabilities": (probabilities_are_those_of_the_likeliest_words_alone,),
    "ablate_heads": (ablation_equals_an_output_projection_without_those_columns,),
    "other_weights": (other_weights_give_the_same_context, other_weights_leave_hidden_keys_hidden),
    "relation_score": (relations_are_means_of_single_weights,),
    "contribution_norms": (contributions_are_the_parts_of_the_output,),
    "gpt2_qkv": (a_layer_of_gpt2_equals_torchs_module,),
    "gpt2_attention": (a_layer_of_gpt2_equals_torchs_module,),
    "to_half_split": (half_split_rows_turn_as_interleaved_ones,),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("check", dict.fromkeys(itertools.chain(*CHECKS.values())), ids=lambda check: check.__name__)
def test_agrees(check, dtype):
    check(dtype)


RIGHT = types.SimpleNamespace(**vars(solutions))


def disagrees(name, target, parts):
    return any(fails_with(check, target, parts, dtype) for check in CHECKS[name] for dtype in DTYPES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_known_mistakes_disagree(name):
    for way in ways(name):
        assert disagrees(name, solutions, {name: EXERCISES[name].implementation(way.change)}), way


def reweighing(ones=1.0, values=1.0, size=1.0, rounding=1e-6, way=0, dtype=None):
    def other_weights(weights, v):
        weights_64 = weights.double()
        kept = torch.cat((values * v, torch.full_like(v[:, :1], ones)), dim=1).double()
        null_space = torch.linalg.svd((weights_64[:, :, None] * kept).mT).Vh[:, kept.size(1) :]
        ways = torch.linalg.svd(null_space * weights_64[:, None]).U[:, :, way, None]
        factors = (null_space.mT @ ways).squeeze(-1)
        largest, smallest = factors.amax(-1, keepdim=True), factors.amin(-1, keepdim=True)
        limit = torch.where(largest < -smallest, -largest, -smallest)
        factors = torch.where(limit.abs() >= rounding, factors / limit, 0.0)
        return (weights_64 * (1 + size * factors)).to(dtype or weights.dtype)

    return other_weights


def added_in_place(x, attend, feed_forward, norm1, norm2):
    x += attend(norm1(x)).detach()
    return x + feed_forward(norm2(x))


def generating(gradients=torch.no_grad):
    def generate(model, ids, steps):
        for _ in range(steps):
            with gradients():
                ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), dim=1)
        return ids

    return generate


OTHER_MISTAKES = [  # name, the wrong function
    ("encoder_block", added_in_place),
    ("generate", generating(torch.enable_grad)),
    ("other_weights", reweighing(ones=0.0)),
    ("other_weights", reweighing(values=0.0)),
    ("other_weights", reweighing(size=3)),
    ("other_weights", reweighing(size=1e-3)),
    ("other_weights", reweighing(size=0)),
    ("other_weights", reweighing(rounding=0.0)),
    ("other_weights", reweighing(dtype=torch.float32)),
    ("other_weights", reweighing(way=-1)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "wrong"), OTHER_MISTAKES)
def test_other_mistakes_disagree(name, wrong):
    assert disagrees(name, solutions, {name: wrong})


@pytest.mark.parametrize(("name", "right"), [("other_weights", reweighing()), ("generate", generating())])
def test_what_other_mistakes_are_made_with_is_right(name, right):
    assert not any(fails_with(check, solutions, {name: right}, torch.float64) for check in CHECKS[name])


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


CACHE = ones(B, H, S, D)
ERRORS = [
    (lambda: flash.tiled_attention(ones(B, H, T, D), CACHE[:, :, :0], CACHE[:, :, :0], 2),
     "tiled_attention: there must be a key to attend to. expected S >= 1, got S=0"),
    (lambda: flash.tiled_attention(ones(B, H, T, D), CACHE, CACHE[:, :, :5], 2),
     "tiled_attention: v has the wrong S. expected (B=2, H=4, S=7, D), got (B=2, H=4, S=5, D=6)"),
]  # fmt: skip


def test_seaborn_leaves_out_what_is_hidden():
    mask = numbers(T, S) > 0
    axes = sns.heatmap(torch.ones(T, S).numpy(), mask=mask.numpy(), cbar=False)
    drawn = torch.tensor(~axes.collections[0].get_array().mask).view(T, S)
    assert torch.equal(solutions.to_attend(mask, "seaborn"), drawn)


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_and_how(call, message):
    refused(call, message)


def test_results_are_where_the_inputs_are(device):
    k, v = (numbers(B, H, S, D, seed=seed).to(device) for seed in range(2))
    assert positions.rope(k, torch.arange(S)).device == k.device
    weights = [numbers(C, C, seed=seed).to(device) for seed in range(4)]
    out, *_ = caching.decode_step(numbers(B, 1, C).to(device), k, v, *weights, H)
    assert out.device == k.device
    other = solutions.other_weights(numbers(T, S).softmax(-1).to(device), numbers(S, 3).to(device))
    assert other.device == k.device
