"""References against PyTorch's own modules, float64 and properties, which known mistakes must fail."""

import itertools
import math
import types

import pytest
import solutions
import torch
from rewriting import TOLERANCE, Largest, fails_with, numbers, one_thread, refused, same  # noqa: F401
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


def converters_agree_with_the_modules_that_use_the_masks(dtype):
    attend = (numbers(T, S, seed=1) > 0) | (torch.arange(S) == 2)
    hidden = ~attend
    additive = solutions.additive_mask(attend, dtype)
    assert additive.dtype == dtype
    q, k, v = (numbers(B, H, n, D, seed=seed, dtype=dtype) for seed, n in enumerate((T, S, S)))
    want = attention.attention(q, k, v, attend)[0]
    for mask, convention in ((attend, "sdpa"), (additive, "additive")):
        same(F.scaled_dot_product_attention(q, k, v, mask), want, dtype)
        assert torch.equal(solutions.to_attend(mask, convention), attend)
    module, x, memory = torch_module(dtype), numbers(B, T, C, dtype=dtype), numbers(B, S, C, seed=3, dtype=dtype)
    keys = masks.padding_mask([S, 4], S)
    for given in ({"attn_mask": hidden}, {"attn_mask": additive}, {"key_padding_mask": ~keys[:, 0, 0]}):
        out, weights = module(x, memory, memory, **given, average_attn_weights=False)
        (mask,) = given.values()
        read = solutions.to_attend(mask, "additive" if mask.is_floating_point() else "multihead")
        read = read[:, None, None] if "key_padding_mask" in given else read
        mine, my_weights = solutions.cross_attention(x, memory, *weights_of(module), H, read)
        same(mine, out.detach(), dtype)
        same(my_weights, weights.detach(), dtype)


def seaborn_leaves_out_what_is_hidden(dtype):
    import matplotlib.pyplot as plt  # noqa: PLC0415
    import seaborn as sns  # noqa: PLC0415

    mask = numbers(T, S) > 0
    axes = sns.heatmap(torch.ones(T, S).numpy(), mask=mask.numpy(), cbar=False)
    drawn = torch.tensor(~axes.collections[0].get_array().mask).view(T, S)
    plt.close("all")
    assert torch.equal(solutions.to_attend(mask, "seaborn"), drawn)


def cache_mask_is_the_last_rows_of_the_causal_mask(dtype):
    for total in range(1, 9):
        for new in range(1, total + 1):
            assert torch.equal(solutions.causal_mask_for_cache(new, total), masks.causal_mask(total)[total - new :])


def leaks_are_those_of_the_mask(dtype):
    x, module = numbers(B, S, C, dtype=dtype), torch_module(dtype)
    for attend in (masks.causal_mask(S), masks.causal_mask(S).triu(-2), numbers(S, S) > 0):
        visible = attend | torch.eye(S, dtype=torch.bool)
        found = solutions.find_leaks(lambda x, hidden=~visible: module(x, x, x, attn_mask=hidden)[0], x)
        assert torch.equal(found, visible)


def sinusoids_equal_the_formula(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        encodings = [solutions.sinusoidal_encoding(*sizes) for sizes in ((S, C), (1, 2))]
    finally:
        torch.set_default_dtype(before)
    for encoding in encodings:
        tokens, width = encoding.shape
        angles = [[s / 10000 ** (2 * (c // 2) / width) for c in range(width)] for s in range(tokens)]
        want = [[(math.cos if c % 2 else math.sin)(angle) for c, angle in enumerate(row)] for row in angles]
        same(encoding, torch.tensor(want, dtype=torch.float64), dtype)


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


def decoding_equals_doing_all_at_once_for_every_split(dtype):
    module, x = torch_module(dtype), numbers(B, S, C, dtype=dtype)
    hidden = ~masks.causal_mask(S)
    want = module(x, x, x, attn_mask=hidden)[0].detach()
    w = weights_of(module)
    k_all, v_all = ((x @ weight.T).view(B, S, H, D).transpose(1, 2) for weight in w[1:3])
    for past in range(S):
        k, v = k_all[:, :, :past].clone(), v_all[:, :, :past].clone()
        for t in range(past, S):
            before = k.clone(), v.clone()
            out, new_k, new_v = solutions.decode_step(x[:, t : t + 1], k, v, *w, H)
            assert torch.equal(k, before[0])
            assert torch.equal(v, before[1])
            same(out, want[:, t : t + 1], dtype)
            k, v = new_k, new_v
        same(k, k_all, dtype)
        same(v, v_all, dtype)


def repeated_heads_equal_torchs_grouped_queries(dtype):
    q = numbers(B, H, T, D, dtype=dtype)
    for groups in (1, 2, H):
        k, v = (numbers(B, groups, S, D, seed=seed, dtype=dtype) for seed in (1, 2))
        want = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        same(attention.attention(q, solutions.repeat_kv(k, H), solutions.repeat_kv(v, H))[0], want, dtype)


def latent_scores_equal_those_of_the_keys_never_made(dtype):
    width = 9
    q, w_uk, latent = (
        numbers(*shape, seed=at, dtype=dtype) for at, shape in enumerate(((B, H, T, D), (H, D, width), (B, S, width)))
    )
    k = torch.stack([F.linear(latent, w_uk[head]) for head in range(H)], dim=1)  # (B, H, S, D)
    want = torch.stack([q[:, :, t : t + 1].mul(k).sum(-1) for t in range(T)], dim=2)
    same(solutions.latent_scores(q, w_uk, latent), want, dtype)


def bytes_are_those_of_real_caches(dtype):
    cache = [torch.zeros(B, H, S, D, dtype=dtype) for _ in range(3) for _ in "kv"]
    count = solutions.kv_cache_bytes(3, B, S, H, D, dtype.itemsize)
    assert count == sum(tensor.untyped_storage().nbytes() for tensor in cache)
    assert type(count) is int
    assert solutions.kv_cache_bytes(3, B, 0, H, D, 2) == 0


def one_pass_equals_logsumexp_for_every_block(dtype):
    for scores in (numbers(B, H, T, S, dtype=dtype), numbers(S, dtype=dtype) * 300 + 1e4):
        hidden = scores.masked_fill(numbers(*scores.shape, seed=1) > 0, -math.inf)
        hidden[..., :2] = -math.inf  # a first block without a key
        for case in (scores, hidden):
            for block_size in range(1, S + 3):
                highest, total = solutions.online_softmax(case, block_size)
                same(highest, case.amax(-1), dtype)
                same(highest + total.log(), case.double().logsumexp(-1), dtype)
    highest, total = solutions.online_softmax(torch.full((T, S), -math.inf, dtype=dtype), 3)
    assert highest.isneginf().all()
    assert not total.any()


def tiles_equal_the_whole_for_every_block(dtype):
    for scale in (1.0, 100.0):
        q, k, v = (numbers(B, H, n, D, seed=seed, dtype=dtype) * scale for seed, n in enumerate((T, S, S)))
        v = torch.cat((v, v[..., :5]), dim=-1)  # a width of its own
        want = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
        for block_size in range(1, S + 3):
            got = solutions.tiled_attention(q, k, v, block_size)
            assert got.dtype == dtype
            bound = TOLERANCE[dtype] * scale**2  # scores of 1e4 have so many digits fewer behind the point
            assert torch.allclose(got.double(), want, atol=bound, rtol=bound)


def tiles_never_hold_more_than_a_block_of_scores(dtype):
    queries, keys, block_size = 50, 300, 32
    q, k, v = (numbers(B, H, n, D, seed=seed, dtype=dtype) for seed, n in enumerate((queries, keys, keys)))
    with Largest() as largest:
        solutions.tiled_attention(q, k, v, block_size)
    assert largest.values == B * H * block_size * block_size
    scores = numbers(queries, keys, dtype=dtype)
    with Largest() as largest:
        solutions.online_softmax(scores, block_size)
    assert largest.values == queries * block_size


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
    "to_attend": (converters_agree_with_the_modules_that_use_the_masks, seaborn_leaves_out_what_is_hidden),
    "additive_mask": (converters_agree_with_the_modules_that_use_the_masks,),
    "find_leaks": (leaks_are_those_of_the_mask,),
    "causal_mask_for_cache": (cache_mask_is_the_last_rows_of_the_causal_mask,),
    "sinusoidal_encoding": (sinusoids_equal_the_formula,),
    "rope": (rope_is_a_product_of_complex_numbers,),
    "decode_step": (decoding_equals_doing_all_at_once_for_every_split,),
    "repeat_kv": (repeated_heads_equal_torchs_grouped_queries,),
    "kv_cache_bytes": (bytes_are_those_of_real_caches,),
    "latent_scores": (latent_scores_equal_those_of_the_keys_never_made,),
    "online_softmax": (one_pass_equals_logsumexp_for_every_block, tiles_never_hold_more_than_a_block_of_scores),
    "tiled_attention": (tiles_equal_the_whole_for_every_block, tiles_never_hold_more_than_a_block_of_scores),
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
    ("additive_mask", lambda mask, dtype: RIGHT.additive_mask(mask, torch.float32)),
    ("sinusoidal_encoding", lambda *sizes: RIGHT.sinusoidal_encoding(*sizes).float()),
    ("tiled_attention", lambda q, k, v, block_size: F.scaled_dot_product_attention(q, k, v)),
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


W = [ones(C, C)] * 4
CACHE = ones(B, H, S, D)
ERRORS = [
    (lambda: masks.causal_mask_for_cache(7, 5),
     "causal_mask_for_cache: the new tokens must be among all tokens. "
     "expected ints with 1 <= new <= total, got new=7, total=5"),
    (lambda: masks.to_attend(masks.causal_mask(3), "keras"),
     "to_attend: no convention has this name. expected bool, sdpa, multihead, seaborn, additive, got 'keras'"),
    (lambda: masks.to_attend(ones(3, 3), "multihead"),
     "to_attend: mask must be bool in the convention 'multihead'. expected torch.bool, got torch.float32, "
     'fix: convention="additive" if it holds 0 and -inf, mask.bool() if it holds 0 and 1'),
    (lambda: masks.to_attend([True], "bool"),
     "to_attend: mask must be a tensor. expected a torch.Tensor, got list, fix: torch.as_tensor(mask)"),
    (lambda: masks.to_attend(masks.causal_mask(3), "additive"),
     "to_attend: an additive mask must be floating point. expected a float dtype, got torch.bool"),
    (lambda: masks.to_attend(torch.tensor([0.0, -1e9]), "additive"),
     "to_attend: an additive mask must hold 0 and -inf alone. expected 0 = may attend, -inf = hidden, "
     "got -1e+09 too, fix: mask.masked_fill(mask < -1e4, -math.inf)"),
    (lambda: masks.to_attend(torch.tensor([0.0, -1.5, -1e9]), "additive"),
     "to_attend: an additive mask must hold 0 and -inf alone. expected 0 = may attend, -inf = hidden, got -1.5 too"),
    (lambda: masks.additive_mask(ones(3, 3), torch.float32),
     "additive_mask: mask must be bool, True = may attend. expected torch.bool, got torch.float32, "
     "fix: mask.bool() if it holds 0 and 1"),
    (lambda: masks.combine_masks([True], masks.padding_mask([3], 5)),
     "combine_masks: causal must be a tensor. expected a torch.Tensor, got list, fix: torch.as_tensor(causal)"),
    (lambda: positions.sinusoidal_encoding(0, C),
     "sinusoidal_encoding: seq_len must be a positive int. expected seq_len >= 1, got 0"),
    (lambda: positions.sinusoidal_encoding(S, 23),
     "sinusoidal_encoding: d_model must be even, since channels go in pairs. "
     "expected d_model % 2 == 0, d_model >= 2, got d_model=23, fix: d_model=24"),
    (lambda: positions.rope(ones(B, H, S, D), torch.arange(T)),
     "rope: positions has the wrong S. expected (S=7), got (S=5)"),
    (lambda: positions.rope(ones(B, H, S, D), torch.arange(S), 0),
     "rope: base must be positive. expected base > 0, got base=0"),
    (lambda: caching.decode_step(ones(B, 1, C), CACHE[:, :3], CACHE, *W, H),
     "decode_step: k_cache has the wrong H. expected (B=2, H=4, P=7, D=6), got (B=2, H=3, P=7, D=6)"),
    (lambda: caching.decode_step(ones(B, 1, C), CACHE, CACHE, W[0], ones(C, 20), *W[2:], H),
     "decode_step: w_k has the wrong C'. expected (C=24, C'=24), got (C=24, C'=20)"),
    (lambda: caching.decode_step(ones(B, 1, C), CACHE, CACHE, *W[:3], ones(C, C, dtype=torch.float64), H),
     "decode_step: w_o must have the dtype of x_t. expected torch.float32, got torch.float64, "
     "fix: w_o.to(torch.float32)"),
    (lambda: caching.decode_step(ones(B, 1, C), CACHE, CACHE, *W, 5),
     "decode_step: num_heads must divide C. expected C % num_heads == 0, got C=24, num_heads=5, "
     "fix: num_heads=4 or 6, or C=20 or 25"),
    (lambda: caching.kv_cache_bytes(3, B, S, H, D, 0.5),
     "kv_cache_bytes: bytes_per_value must be a whole number. "
     "expected bytes_per_value >= 0, got bytes_per_value=0.5"),
    (lambda: flash.tiled_attention(ones(B, H, T, D), CACHE[:, :, :0], CACHE[:, :, :0], 2),
     "tiled_attention: there must be a key to attend to. expected S >= 1, got S=0"),
    (lambda: flash.tiled_attention(ones(B, H, T, D), CACHE, CACHE[:, :, :5], 2),
     "tiled_attention: v has the wrong S. expected (B=2, H=4, S=7, D), got (B=2, H=4, S=5, D=6)"),
]  # fmt: skip


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
