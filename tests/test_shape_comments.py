"""Every comment like ``# (B, H, S, D)`` in the reference code is run, and must be true."""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from mha_course import attention, caching, flash, lessons, masks, models, positions, variants
from mha_course import example as running_example
from mha_course.datasets import grammar
from mha_course.exercises.catalogue import LESSONS
from mha_course.lessons.l07_multi_head_attention import styles
from mha_course.lessons.l11_kv_cache import decoding
from mha_course.lessons.l14_vision import shapes, vision
from mha_course.lessons.l15_language_model import causal_model, speculation
from mha_course.lessons.l15_language_model import exercises as l15_language_model
from mha_course.models import blocks, published

SIZES = {"B": 2, "T": 5, "S": 7, "H": 4, "D": 6, "C": 24, "L": 3, "out": 18}
# One of these sizes throughout a call; S is free only in a function that does not also name T. T is
# 1 in decoding.
FREE = {"S": (5, 7), "T": (1, 5, 7), "out": (18, 72), "width": (16, 24)}
COMMENT = re.compile(r"#\s*\(([A-Za-z0-9*+/, -]+)\)(?: each)?\s*(?:$|,)")


def promises(path):
    """Return {line: axes} of the shape comments in a file."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(Path(path).read_text()).readline):
        match = COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        if match:
            found[token.start[0]] = [axis.strip() for axis in match[1].split(",") if axis.strip()]
    return found


def statements(path):
    """Return {last line: names that a statement assigns, None for a return}, and {line: last}."""
    names, last_lines = {}, {}
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if not isinstance(node, ast.Assign | ast.Return):
            continue
        last_lines |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.end_lineno)
        names[node.end_lineno] = None
        if isinstance(node, ast.Assign):
            first = node.targets[0]
            targets = first.elts if isinstance(first, ast.Tuple) else node.targets
            ids = [target.id for target in targets if isinstance(target, ast.Name)]
            names[node.end_lineno] = [name for name in ids if name != "_"]
    return names, last_lines


def fields_of(path):
    """Return {line: name} of the fields of dataclasses."""
    nodes = ast.walk(ast.parse(Path(path).read_text()))
    bodies = [node.body for node in nodes if isinstance(node, ast.ClassDef)]
    fields = [row for body in bodies for row in body if isinstance(row, ast.AnnAssign)]
    return {field.lineno: field.target.id for field in fields}


def audit(path, run, sizes):
    """Run something and return (lines whose comment was verified, complaints)."""
    wanted = promises(path)
    targets, ends = statements(path)
    seen, complaints = set(), []

    def judge(line, value, bound):
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if isinstance(tensor, Tensor):
                seen.add(line)
                for axis, size in zip(wanted[line], tensor.shape, strict=False):
                    if axis in FREE and axis not in bound and size in FREE[axis]:
                        bound[axis] = size
                want = [eval(axis, {}, sizes | bound) for axis in wanted[line]]
                if list(tensor.shape) != want:
                    says = f"{Path(path).name}:{line} says {wanted[line]} = {want}"
                    complaints.append(f"{says}, is {tuple(tensor.shape)}")

    def tracer(frame, event, argument):
        code = frame.f_code
        if code.co_filename != str(path) or code.co_name.startswith("<"):
            return None
        lines = {line for _, _, line in code.co_lines() if line}
        names_t = any("T" in wanted.get(line, ()) for line in lines)
        last, bound = None, {"S": sizes["S"]} if names_t else {}

        def local(frame, event, argument):
            nonlocal last
            now, returns = ends.get(frame.f_lineno, frame.f_lineno), event == "return"
            if (last != now or returns) and last in wanted and targets.get(last):
                judge(last, [frame.f_locals.get(name) for name in targets[last]], bound)
            if returns and now in wanted and targets.get(now, ()) is None:
                judge(now, argument, bound)
            last = now
            return local

        return local

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen, complaints


class SharedKeys(attention.AttentionModule):
    """Two heads of keys and values, which are not split: split_heads is run only with H heads."""

    def project(self, query, key, value):
        return torch.randn(2, 4, 5, 6), *torch.randn(2, 2, 2, 7, 6)


def use_attention():
    mha = attention.MultiHeadAttention(24, 4)
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mha(x, memory)
    for need_weights in (True, False):
        mha(x, memory, mask=mask, need_weights=need_weights)
    mha(x, memory, need_weights=False)
    mha.steps(x, memory, mask=mask)
    mha.steps(memory, is_causal=True)
    SharedKeys(24, 4, 2)(x, memory)
    attention.attention(*(torch.randn(2, 4, tokens, 6) for tokens in (5, 7, 7)), mask)
    attention.multi_head_attention(memory, *torch.randn(4, 24, 24), num_heads=4)
    attention.split_fused_qkv(torch.randn(2, 7, 72), num_heads=4)
    attention.head_contributions(torch.randn(2, 4, 5, 6), torch.randn(24, 24))


def use_masks():
    masks.combine_masks(masks.causal_mask(7), masks.padding_mask([7, 3], 7))
    masks.causal_mask_for_cache(5, 7)
    masks.top_left_causal_mask(5, 7)


def use_positions():
    positions.sinusoidal_encoding(7, 24)
    positions.rope_interleaved(torch.randn(2, 4, 7, 6), torch.arange(7))
    positions.projection_to_half_split(torch.randn(24, 24), 4)


def use_caching():
    cache = torch.randn(2, 4, 6, 6)
    caching.gather_pages(torch.randn(11, 4, 8, 6), torch.tensor([5, 0, 7]), 18)
    caching.decode_step(torch.randn(2, 1, 24), cache, cache, *torch.randn(4, 24, 24), 4)
    grouped = caching.GroupedQueryAttention(24, 4, 2)
    kept = caching.KVCache()
    x = torch.randn(2, 7, 24)
    grouped(x[:, :5], x)
    grouped(x[:, :5], x, need_weights=False)
    kept.append(*torch.randn(2, 2, 2, 2, 6))
    caching.decode_chunk(grouped, x[:, 2:], kept)
    grouped(x, is_causal=True)
    caching.decode_chunk(grouped, x, caching.KVCache())
    kept = caching.KVCache()
    kept.append(*torch.randn(2, 2, 2, 6, 6))
    caching.decode_chunk(grouped, x[:, 6:], kept)


def use_decoding():
    module, x = attention.MultiHeadAttention(24, 4), torch.randn(2, 7, 24)
    decoding.with_cache(module, x)
    decoding.reads(*torch.randn(3, 1, 1, 7, 6), masks.causal_mask(7))


def use_flash():
    flash.online_softmax(torch.randn(2, 4, 10, 9), 3)
    flash.merge_partials(*torch.randn(2, 3, 2, 4, 10), torch.randn(3, 2, 4, 10, 6))
    q, k, v = (torch.randn(2, 4, tokens, 6, requires_grad=True) for tokens in (10, 9, 9))
    mask = torch.rand(2, 1, 10, 9) > 0.2
    flash.tiled_attention(q, k, v, (5, 3), mask=mask, causal=True).sum().backward()


VISION = {"height": 20, "width": 28, "patch": 4, "rows": 5, "columns": 7, "N": 35, "S": 36, "L": 2}
VISION |= {"B": 3, "C": 32, "answers": 2, "colours": 4}


def use_vision():
    pictures = shapes.draw(3, torch.Generator().manual_seed(0))
    vision.unpatchify(vision.patchify(pictures.images, 4), 4, 7)
    model = vision.VisionTransformer()
    vision.accuracy(model, pictures)
    vision.accuracy_without(model, pictures, vision.shape_patches(pictures))
    vision.share_on_shapes(model, pictures)
    vision.weights_by_colour(model, pictures)
    vision.PatchVotes()(pictures.images)


def use_variants():
    variants.SelfAttention(24)(torch.randn(2, 7, 24))
    for cls in styles.STYLES.values():
        if cls is variants.SplitCombine:
            cls(24, 4)(torch.randn(2, 5, 24), torch.randn(2, 7, 24), torch.randn(2, 7, 24))
        else:
            x = torch.randn(2, 5 if cls is variants.FoldedHeads else 7, 24)
            cls(24, 4, mask=True)(x) if cls is variants.FoldedHeads else cls(24, 4)(x)


def use_models():
    model = models.MaskedWordModel(11, 7, d_model=24, num_heads=4, d_ff=10, num_layers=3)
    ids = torch.randint(11, (2, 7))
    model(ids)
    model.attention_weights(ids)
    models.EncoderBlock(24, 4, 10, norm_first=False)(torch.randn(2, 7, 24))


def use_causal_model():
    model = causal_model.CausalLanguageModel(11, 8, d_model=24, num_heads=4, d_ff=10, num_layers=3)
    ids = torch.randint(11, (2, 7))
    model(ids)
    model.attention_weights(ids)
    model(ids, model.new_caches())
    for temperature, top_k in ((0.0, None), (1.0, None), (1.0, 5)):
        causal_model.generate(model, ids, 1, temperature=temperature, top_k=top_k)


def use_speculation():
    """Draft one word, and refuse none or one: comments are about one round of a loop."""
    sizes = {"d_model": 24, "num_heads": 4, "d_ff": 10, "num_layers": 1}
    model = causal_model.CausalLanguageModel(128, 17, **sizes)
    ids = torch.arange(3, 10)[None]
    speculation.accept_or_redraw(*torch.randn(2, 128).softmax(-1), 4, 0.3)
    speculation.surprisal(model, model, ids.repeat(2, 1), 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speculation, "LONGEST", 9)
        speculation.speculate(model, model, ids, 1, torch.Generator().manual_seed(0))


def use_published():
    forward = AttentionInterface()[published.plug_in(attention.attention)]
    query, key, value = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 8)
    forward(nn.Module(), query, key, value, torch.zeros(2, 1, 5, 9))


def use_lesson(lesson):
    for exercise in lesson.exercises:
        for case in exercise.first_cases:
            exercise.run(exercise.reference, *case.arguments)


def use_next_words():
    """Append only one word: its comments are about one round of a loop that makes ids longer."""
    ids = torch.randint(11, (2, 7))
    l15_language_model.next_token_targets(ids)
    l15_language_model.generate(lambda ids: torch.randn(*ids.shape, 11), ids, 1)


CASES = {
    "attention": (attention, use_attention, SIZES | {"G": 4}),
    "masks": (masks, use_masks, SIZES),
    "positions": (positions, use_positions, SIZES),
    "caching": (caching, use_caching, SIZES | {"P": 6, "G": 2, "N": 8, "n": 3, "length": 18}),
    "decoding": (decoding, use_decoding, SIZES),
    "flash": (flash, use_flash, SIZES | {"T": 10, "S": 9, "K": 3, "rows": 5, "columns": 3}),
    "shapes": (
        shapes,
        lambda: shapes.draw(8, torch.Generator().manual_seed(0)),
        {"B": 4, "height": 20, "width": 28},
    ),
    "vision": (vision, use_vision, SIZES | VISION),
    "variants": (variants, use_variants, SIZES),
    "styles": (styles, use_variants, SIZES),
    "models": (blocks, use_models, SIZES | {"V": 11}),
    "causal_model": (causal_model, use_causal_model, SIZES | {"V": 11}),
    "speculation": (speculation, use_speculation, SIZES | {"V": 128, "K": 4}),
    "published": (published, use_published, SIZES | {"E": 8}),
}


@pytest.mark.parametrize("name", CASES)
def test_comments_tell_the_truth(name):
    module, run, sizes = CASES[name]
    seen, complaints = audit(module.__file__, run, sizes)
    assert not complaints
    never_run = promises(module.__file__).keys() - seen - fields_of(module.__file__).keys()
    assert not never_run
    assert seen


# Lessons whose inputs have sizes of their own.
LESSON_CASES = {
    8: (None, {"B": 5}),
    11: (None, {"R": 9}),
    15: (use_next_words, {"V": 11}),
    17: (None, {"S": 11}),
}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_comments_in_lessons_tell_the_truth(lesson):
    (path,) = Path(lessons.__file__).parent.glob(f"l{lesson.number:02}_*/exercises.py")
    run, sizes = LESSON_CASES.get(lesson.number, (None, {}))
    seen, complaints = audit(path, run or (lambda: use_lesson(lesson)), SIZES | sizes)
    assert not complaints
    assert not promises(path).keys() - seen


def test_fields_of_the_steps_tell_the_truth(draw):
    mha, x, memory = attention.MultiHeadAttention(24, 4).double(), draw(2, 5, 24), draw(2, 7, 24)
    steps = mha.steps(x, memory)
    comments, fields = promises(attention.__file__), fields_of(attention.__file__)
    assert len(fields) == 10
    for line, name in fields.items():
        assert list(getattr(steps, name).shape) == [SIZES[axis] for axis in comments[line]], name


def test_a_comment_that_lies_is_found(tmp_path):
    lie = tmp_path / "lie.py"
    lie.write_text("def f(x):\n    y = x.mT  # (S, C)\n    return y @ x  # (C, C)\n")
    space = {}
    exec(compile(lie.read_text(), str(lie), "exec"), space)
    seen, complaints = audit(lie, lambda: space["f"](torch.ones(7, 24)), SIZES)
    assert seen == {2, 3}
    assert complaints == ["lie.py:2 says ['S', 'C'] = [7, 24], is (24, 7)"]


def test_the_running_example_keeps_its_promises_too():
    example_sizes = {"B": 1, "S": 15, "C": 48, "V": len(grammar.vocabulary())}
    seen, complaints = audit(running_example.__file__, running_example.load, example_sizes)
    assert seen
    assert not complaints
    sizes = {"B": 128, "S": 15, "V": len(grammar.vocabulary())}
    batches = running_example.training_batches(0)
    next(batches)  # encodes its pool
    seen, complaints = audit(running_example.__file__, lambda: next(batches), sizes)
    assert len(seen) >= 4
    assert not complaints
