"""Published checkpoints as lesson 18 opens them: names, replaced attention, heads."""

import itertools
import math
import shutil

import pytest
import torch
from rewriting import refused
from safetensors.torch import load_file, save_file

from mha_course.datasets.grammar import Sentence
from mha_course.errors import SentenceError, ShapeError
from mha_course.experiments import head_analysis
from mha_course.lessons.l18_real_models import real_models
from mha_course.lessons.l18_real_models.exercises import gpt2_attention
from mha_course.models import checkpoints

L, B, H, S = 3, 4, 5, 14
NAMES = tuple(real_models.SHIPPED)
opened = pytest.fixture(lambda request: real_models.open_checkpoint(request.param))
each = pytest.mark.parametrize("opened", NAMES, indirect=True)


def not_there(name):
    raise ShapeError("fetch", "the hub cannot be reached", expected="a network", got="none")


@pytest.mark.parametrize(
    ("options", "switch", "fetch", "small", "line"),
    [
        (
            {},
            "",
            not_there,
            True,
            "This is the course's small checkpoint in the format of BERT base.",
        ),
        (
            {"real": True},
            "",
            not_there,
            True,
            "BERT base could not be fetched (the hub cannot be reached). This is",
        ),
        (
            {},
            "1",
            not_there,
            True,
            "BERT base could not be fetched (the hub cannot be reached). This is",
        ),
        ({"real": True}, "", checkpoints.shipped, False, "BERT base, as it is published."),
        ({}, "1", checkpoints.shipped, False, "BERT base, as it is published."),
    ],
)
def test_one_line_says_which_checkpoint_it_is(
    options, switch, fetch, small, line, monkeypatch, capsys
):
    monkeypatch.setenv("MHA_COURSE_REAL", switch)
    monkeypatch.setattr(checkpoints, "fetch", fetch)
    assert real_models.open_checkpoint("bert", **options).small == small
    said = capsys.readouterr().out
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_a_model_of_ones_own_is_fetched_or_refused(monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "fetch", not_there)
    with pytest.raises(ShapeError, match="cannot be reached"):
        real_models.open_checkpoint("owner/name")
    monkeypatch.setattr(checkpoints, "fetch", {"owner/name": checkpoints.shipped("llama")}.get)
    assert not real_models.open_checkpoint("owner/name").small
    assert capsys.readouterr().out == "owner/name, as it is published.\n"


def test_a_folder_of_ones_own_is_opened(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "fetch", not_there)
    folder = shutil.copytree(checkpoints.shipped("llama"), tmp_path / "mine" / "cats")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (folder, str(folder), "mine/cats", "~/mine/cats"):
        own = real_models.open_checkpoint(name)
        assert own.model(own.encode("The grey cat.")[0]).size(1) > 3
        assert not own.small
        assert capsys.readouterr().out == "cats, from your folder.\n"
    (folder / "tokenizer.json").unlink()
    message = (
        "open_checkpoint: the tokenizer must lie beside the model. expected a file "
        "tokenizer.json, got none in cats"
    )
    refused(lambda: real_models.open_checkpoint(folder).encode("The"), message)


@pytest.mark.parametrize("name", ["GPT2", "bert-base"])
def test_a_name_that_is_none_is_refused(name):
    message = (
        "open_checkpoint: no model has this name. expected gpt2, bert, smollm2, a folder, or "
        "OWNER/NAME of a "
    )
    refused(lambda: real_models.open_checkpoint(name), f"{message}public model, got '{name}'")


def test_a_text_without_tokens_is_refused_as_a_sentence():
    llama = real_models.open_checkpoint("smollm2")
    with pytest.raises(SentenceError, match="encode: the text has no token"):
        llama.encode("")


@each
def test_the_names_of_a_layers_attention_are_those_of_the_file(opened):
    stored = load_file(opened.folder / "model.safetensors")
    for layer in (0, 1):
        found = real_models.stored_attention(opened.folder, layer)
        wanted = [
            name
            for name in stored
            if f".{layer}." in name and "att" in name and "norm" not in name.lower()
        ]
        assert found == {name: tuple(stored[name].shape) for name in sorted(wanted)}
    attention = opened.model.blocks[1].attention
    assert sum(map(math.prod, found.values())) == sum(x.numel() for x in attention.parameters())


@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_a_function_takes_the_place_of_attention(prefix, tmp_path):
    gpt2 = real_models.open_checkpoint("gpt2")
    stored = load_file(gpt2.folder / "model.safetensors")
    renamed = {prefix + name.removeprefix("transformer."): x for name, x in stored.items()}
    save_file(renamed, tmp_path / "model.safetensors")
    ids, _ = gpt2.encode("The grey cat saw the loud dogs.")
    (tmp_path / "config.json").write_bytes((gpt2.folder / "config.json").read_bytes())
    gpt2 = real_models.Checkpoint(tmp_path, small=True)
    calls = []

    def counted(x, state, num_heads):
        calls.append((tuple(state), num_heads))
        return gpt2_attention(x, state, num_heads)

    logits, before = real_models.with_attention(gpt2, counted)(ids), gpt2.model(ids)
    assert torch.allclose(logits, before, atol=1e-5)
    assert calls == 2 * [(("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"), 4)]
    assert not torch.allclose(
        real_models.with_attention(gpt2, lambda x, *_: x)(ids), before, atol=1e-1
    )
    assert torch.equal(gpt2.model(ids), before)


def test_scores_are_means_of_single_weights():
    weights = torch.rand(
        L, B, H, S, S, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    period = S // 2
    pairs = {  # from and to
        real_models.previous_token_scores: [(t, t - 1) for t in range(1, S)],
        real_models.first_token_share: [(t, 0) for t in range(1, S)],
        lambda weights: real_models.induction_scores(weights, period): [
            (t, t - period + 1) for t in range(period, S)
        ],
    }
    for score, places in pairs.items():
        want = torch.stack([weights[:, :, :, t, s] for t, s in places]).mean((0, 2))
        assert torch.allclose(score(weights), want)


def test_pairs_become_places_of_tokens():
    bert = real_models.open_checkpoint("bert")
    words = ("the", "zyx", "cat", ",", "it"), ("the", "cat", "it")
    texts = [
        Sentence(words[0], "and", {"pronoun": ((4, 2),), "odd": ((1, 0), (3, 1))}),
        Sentence(words[1], "so", {"pronoun": ((2, 1),)}),
    ]
    placed, ids, mask = real_models.in_tokens(bert.tokenizer, texts)
    assert placed[0].words == ("[CLS]", "the", "z", "##y", "##x", "cat", ",", "it", "[SEP]")
    assert placed[0].pairs == {
        "pronoun": ((7, 5),),
        "odd": ((4, 1), (6, 4)),
    }  # of a word in pieces the last
    assert placed[1].pairs == {"pronoun": ((3, 2),)}
    assert mask.sum(-1).tolist() == [9, 5]
    assert ids.shape == (2, 9)
    assert bert.tokenizer.decode(ids[1, :5].tolist()) == "the cat it"


@each
def test_an_untrained_model_has_the_same_shapes_and_other_numbers(opened):
    one, again, other = opened.untrained(), opened.untrained(), opened.untrained(seed=1)
    for name, trained in opened.model.state_dict().items():
        shapes = {tuple(model.state_dict()[name].shape) for model in (one, again, other)}
        assert shapes == {tuple(trained.shape)}
    name = "encoder.layers.0.attention.q_proj.weight"
    weights = [model.state_dict()[name] for model in (one, again, other, opened.model)]
    assert torch.equal(weights[0], weights[1])
    assert not any(torch.equal(*pair) for pair in itertools.combinations(weights[1:], 2))


@each
def test_heads_of_published_models_are_ablated(opened):
    """A head adds nothing whose columns of the output projection are 0."""
    ids, _ = opened.encode("the grey cat saw the loud dogs")
    without = head_analysis.ablate_heads(opened.model, [(1, 2)])
    width = without.blocks[1].attention.out_proj.in_features // 4
    context = torch.randn(1, ids.size(1), 4 * width, generator=torch.Generator().manual_seed(0))
    changed = context.clone()
    changed[..., 2 * width : 3 * width] = 0.0
    project, whole = without.blocks[1].attention.out_proj, opened.model.blocks[1].attention.out_proj
    assert torch.allclose(project(context), whole(changed), atol=1e-6)
    for head in (-1, 4):
        with pytest.raises(IndexError, match=f"there is no head {head}, expected 0 to 3"):
            head_analysis.ablate_heads(opened.model, [(-1, head)])
    assert not torch.allclose(without(ids), opened.model(ids), atol=1e-4)


def test_copies_of_a_large_model_share_its_memory():
    """Only the output projections are changed, and a copy in float64 leaves the model alone."""
    gpt2 = real_models.open_checkpoint("gpt2")
    before = {name: parameter.data_ptr() for name, parameter in gpt2.model.named_parameters()}
    attentionless = real_models.with_attention(gpt2, lambda x, *_: x)
    without = head_analysis.ablate_heads(gpt2.model, [(1, 2)])
    for copied, unlike in ((attentionless, ".attention."), (without, ".out_proj.")):
        shared = {name for name, x in copied.named_parameters() if x.data_ptr() == before[name]}
        assert shared == {name for name in before if unlike not in name}
    without.double()
    assert {x.dtype for x in gpt2.model.parameters()} == {torch.float32}


def test_a_model_is_read_when_it_is_needed():
    gpt2 = real_models.open_checkpoint("gpt2")
    assert "model" not in vars(gpt2)
    first = gpt2.model
    assert gpt2.model is first
    del gpt2.model
    assert gpt2.model is not first
    assert torch.equal(gpt2.model.token_embedding.weight, first.token_embedding.weight)
