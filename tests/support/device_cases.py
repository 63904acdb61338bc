"""What is called on every device: each public function, and what must say which tensor to move."""

# ruff: noqa: F401 (the cases are read with the names of this file)
import torch

from mha_course import (
    attention,
    caching,
    example,
    flash,
    masks,
    models,
    plots,
    positions,
    tracing,
    variants,
    widgets,
)
from mha_course.datasets.grammar import sentences
from mha_course.experiments import head_analysis, head_tasks, leakage
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l07_multi_head_attention import AttentionScene, SplitLab
from mha_course.lessons.l09_cross_attention import translation
from mha_course.lessons.l09_cross_attention.toy_language import pairs
from mha_course.lessons.l14_vision import shapes, vision
from mha_course.lessons.l15_language_model import SamplingLab, language_model, pronouns
from mha_course.lessons.l16_why_many_heads import associative_recall
from mha_course.lessons.l17_what_heads_do import head_tables, induction
from mha_course.lessons.l18_real_models import real_models
from mha_course.models import checkpoints, language

HIDDEN = "the grey cat that chased the loud dogs was hungry , so <mask> ate greedily"
TEXTS = [text for text in sentences(80, "test", seed=0) if "pronoun" in text.pairs]
TOKENS = ["the", "grey", "cat", "was", "hungry"]

# Expressions in which ``q`` and ``x`` are tensors on the device, and ``to`` moves a module there.
CASES = """\
attention.multi_head_attention(x, w, w, w, w, 4, causal)
attention.merge_heads(attention.split_heads(x, 4))
attention.repeat_kv(q, 8)
attention.split_fused_qkv(x, 2)
attention.head_contributions(q, w)
attention.attention(q, q, q, padding)
attention.masked_softmax(q @ q.mT, causal)
attention.fused_attention(q, q, q, causal)
attention.fused_attention(q, q, q, is_causal=True)
mha(x, mask=padding)
mha(x, is_causal=True, need_weights=False)[0]
vars(mha.steps(x, mask=causal))
masks.causal_mask(5, device=device)
masks.top_left_causal_mask(2, 5, device=device)
masks.causal_mask_for_cache(2, 5, device=device)
masks.combine_masks(causal, padding)
masks.padding_mask(x.new_tensor([3, 5]).int(), 5, side="left")
[masks.to_attend(masks.from_attend(causal, kind), kind) for kind in masks.CONVENTIONS]
masks.additive_mask(causal, torch.float32)
positions.sinusoidal_encoding(5, 24, device=device)
positions.rope(q, range(5))
positions.rope(q, torch.arange(5, device=device))
positions.rope_interleaved(q, torch.arange(5))
positions.to_interleaved(positions.to_half_split(x))
positions.projection_to_half_split(w, 4)
caching.decode_step(x[:, :1], q, q, w, w, w, w, 4)
decoded(mha)
decoded(to(caching.GroupedQueryAttention, 24, 4, 2))
flash.online_softmax(q, 4)
flash.tiled_attention(q, q, q, 2, mask=padding)
gradients(lambda q, k, v: flash.tiled_attention(q, k, v, 2, causal=True))
to(variants.SelfAttention, 24)(x)
variants.FusedQKV.from_reference(mha)(x)
variants.ReturnsWeights.from_reference(mha)(x)
variants.SplitCombine.from_reference(mha)(x, x, x, causal)
variants.PermuteView.from_reference(mha)(x)
to(variants.FoldedHeads, 24, 4, True)(x)
variants.from_torch(variants.to_torch(mha))(x)
example.load(device=device).x
example.encode([TOKENS], device=device)
example.guess(HIDDEN, model=masked_words())
masked_words().attention_inputs(example.encode([TOKENS], device=device)[0])
to(models.EncoderBlock, 24, 4, 48)(x, mask=causal)
trained()
head_analysis.accuracy(masked_words(), TEXTS, "pronoun")
head_analysis.all_weights(masked_words(), TEXTS)
head_analysis.relation_table(masked_words(), TEXTS, ["pronoun"])
head_tables.baseline_table(masked_words(), TEXTS, ["pronoun"])
head_tables.mean_contexts(masked_words(), TEXTS)
list(ablated().parameters())
head_tables.accuracy_lost(masked_words(), TEXTS, ["pronoun"], [[(1, 1)]]).tolist()
leakage.find_leaks(lambda y: mha(y, is_causal=True)[0], x).tolist()
leakage.token_dependence(lambda y: mha(y, is_causal=True), x).tolist()
[(step.name, step.axes, step.warning) for step in tracing.trace(mha, x, axes="B S C").steps]
plots.heatmap(weights[0, 0], mask=causal)
plots.head_grid(weights, queries=TOKENS, mask=causal)
plots.heatmap_row({"a": weights[0, 0], "b": weights[0, 1]}, TOKENS, mask=causal)
plots.head_rows({"a": weights[0]}, TOKENS)
plots.token_bars({"a": weights[0, 0, 0]}, TOKENS)
plots.bars(weights[0, 0, 0], TOKENS)
plots.bars([*weights[0, 0, 0]], TOKENS)
plots.number_tables({"a": [[*row] for row in weights[0, 0]]}, TOKENS, TOKENS)
plots.number_tables({"a": weights[0, 0]}, TOKENS, TOKENS)
plots.learning_curves({"a": weights[0, 0, 0]}, window=1)
plots.strongest(weights[0, 0, :1], ["a"], TOKENS)
plots.mask_grids(plots.MaskGrid("a", causal), expected=causal)
sent(widgets.HeadExplorer(weights, queries=TOKENS, mask=causal, recompute=lambda size=1.0: weights))
sent(widgets.MaskLab(weights[0, 0], TOKENS, mask=causal))
widgets.ShapeTracer(tracing.trace(mha, x, axes="B S C")).state
sent(AttentionScene(mha.steps(x[:1]), tokens=TOKENS))
translation.translate(to(translation.Translator), " ".join(pairs(1, "train", 0)[0].source))
translation.word_accuracy(to(translation.Translator), pairs(9, "train", 0))
to(vision.VisionTransformer)(pictures(device=device))
vision.accuracy(to(vision.VisionTransformer), pictures())
vision.share_on_shapes(to(vision.VisionTransformer), pictures())
vision.weights_by_colour(to(vision.VisionTransformer), pictures())
language_model.write(words(), 2)
language_model.weights(words(), TEXTS)
language_model.sentence_weights(words(), "the cat")
language_model.perplexity(words(), TEXTS)
language_model.surprisal(language_model.bigram(TEXTS), words_of(TEXTS)).tolist()
pronouns.accuracy(words(), TEXTS)
sent(SamplingLab(words()))
to(induction.AttentionOnly, 1, 2)(words_of(TEXTS) % 32)
published("gpt2")
published("bert")
published("llama")
checkpoint()
""".splitlines()

# What raises ShapeError, and the tensor that it says is to be moved.
REFUSED = """\
attention.attention(q, q, q, causal.cpu()) -> mask
attention.attention(q, q.cpu(), q) -> k
attention.masked_softmax(q @ q.mT, causal.cpu()) -> mask
mha(x.cpu()) -> query
mha(x, mask=causal.cpu()) -> mask
mha.steps(x, x.cpu()) -> key
masks.combine_masks(causal, padding.cpu()) -> padding
variants.FusedQKV.from_reference(mha)(x.cpu()) -> x
caching.decode_step(x[:, :1].cpu(), q, q, w, w, w, w, 4) -> k_cache
caching.decode_chunk(mha, x.cpu(), caching.KVCache()) -> x
flash.tiled_attention(q, q, q, 2, mask=causal.cpu()) -> mask
masked_words()(example.encode([TOKENS])[0]) -> ids
words()(language.encode([TOKENS])) -> ids
to(translation.Translator)(torch.ones(1, 3).long(), torch.ones(1, 3).long()) -> source
to(vision.VisionTransformer)(pictures().images) -> images
bert()(torch.ones(1, 3).long()) -> ids
bert()(words_of(TEXTS) % 32, torch.ones(1, 3).bool()) -> mask
""".splitlines()
# What draws from a generator of the CPU, and must do so whatever PyTorch's default device is.
ON_THE_CPU = """\
example.load().x
example.guess(HIDDEN)
next(example.training_batches(0))
example.train_model(0, steps=2, progress=False)[1]
head_analysis.pronoun_report(example.trained_model())
leakage.find_leaks(lambda y: y.cumsum(1), torch.zeros(1, 3, 2, device="cpu"))
head_tasks.learn(head_tasks.TwoTokenSum(), 2, runs=1, steps=2).r2
list(scaling.draw(4, count=2))
list(shapes.draw(2, torch.Generator().manual_seed(0)))
next(vision.training_batches(0))
induction.learn(1, 2, steps=2).losses
translation.train_translator(0, steps=2, progress=False)[1]
language_model.train_language_model(0, steps=2, progress=False)[1]
language_model.write(language_model.new_language_model(0), 2)
associative_recall.AssociativeRecall().draw(1, 2, torch.Generator().manual_seed(0))
sent(SplitLab())
positions.rope(torch.ones(1, 1, 3, 4, device="cpu"), range(3))
checkpoints.load(checkpoints.shipped("llama"))(torch.ones(1, 3, device="cpu").long())
""".splitlines()


def scope(device):
    """Return the names of this file and what stands on a device; its numbers are always the same."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device="cpu").to(device)

    def to(make, *arguments):
        with models.seeded(0):
            return make(*arguments).to(device).eval()

    q, x, w = normal(2, 4, 5, 6), normal(2, 5, 24), normal(24, 24)
    weights = normal(1, 4, 5, 5).cpu().softmax(-1).to(device)  # the same to the bit
    causal = masks.causal_mask(5, device=device)
    padding = masks.padding_mask([3, 5], 5, device=device)
    mha = to(attention.MultiHeadAttention, 24, 4)

    def masked_words():
        return example.trained_model().to(device)

    def words():
        return language_model.new_language_model(0).to(device)

    def words_of(texts):
        return language.encode([text.words for text in texts])[:, :-1].to(device)

    def pictures(device=None):
        drawn = shapes.draw(4, torch.Generator().manual_seed(0))
        return drawn if device is None else drawn.images.to(device)

    def decoded(module):
        cache = caching.KVCache()
        return [caching.decode_chunk(module, part, cache) for part in x.split(3, dim=1)], cache.k

    def gradients(fn):
        given = [q.clone().requires_grad_() for _ in range(3)]
        return torch.autograd.grad(fn(*given).square().sum(), given)

    def trained():
        block = to(models.EncoderBlock, 24, 4, 48)
        batches = models.random_batches([x.cpu(), x.cpu()], 2, 0)
        loss = lambda model, given, wanted: (model(given) - wanted).square().mean()  # noqa: E731
        return models.train(block, batches, loss, steps=3, lr=1e-2, progress=False), block(x)

    def ablated():
        model = masked_words()
        means = head_tables.mean_contexts(model, TEXTS).cpu()
        return head_analysis.ablate_heads(model, [(1, 1)], means)

    def sent(widget):
        return widget.options, widget.state

    def bert():
        return checkpoints.load(checkpoints.shipped("bert")).to(device)

    def published(family):
        model = checkpoints.load(checkpoints.shipped(family)).to(device)
        ids = torch.arange(12, device=device).view(2, 6)
        return model(ids, ids > 2), model.attention_weights(ids)

    def checkpoint():
        opened = real_models.Checkpoint(checkpoints.shipped("bert"), True, device)
        _, ids, mask = real_models.in_tokens(opened.tokenizer, TEXTS, device=device)
        return opened.model(ids, mask), opened.untrained()(ids, mask), opened.encode("The cat")[0]

    return globals() | locals()
