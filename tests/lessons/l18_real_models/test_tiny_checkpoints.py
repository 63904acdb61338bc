"""The shipped checkpoints: how good they are, and that their seed makes them again."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.lessons.l15_language_model.parsing import recognise
from mha_course.lessons.l18_real_models import real_models, tiny_checkpoints


@pytest.mark.weekly
@pytest.mark.parametrize("family", tiny_checkpoints.CONFIGS)
def test_they_are_made_again_from_the_seed(family, tmp_path, monkeypatch):
    monkeypatch.setitem(tiny_checkpoints.TRAINING, family, (3, 1e-3))
    models = []
    for number in range(2):
        model, tokenizer = tiny_checkpoints.make(family)
        tiny_checkpoints.save(model, tokenizer, tmp_path / str(number))
        models.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert models[0] == models[1]
    shipped = real_models.shipped(family)
    for folder in (tmp_path / "0", shipped):
        assert json.loads(tokenizer.to_str()) == json.loads(
            (folder / "tokenizer.json").read_text(encoding="utf-8")
        )
    ids = torch.randint(tokenizer.get_vocab_size(), (2, 9))
    assert torch.equal(real_models.load(tmp_path / "0")(ids).logits, model(ids).logits)
    files = (shipped / "model.safetensors", tmp_path / "0" / "model.safetensors")
    names = [re.sub("gamma", "weight", re.sub("beta", "bias", " ".join(sorted(load_file(file)))))
             for file in files]  # fmt: skip
    assert sorted(names[0].split()) == sorted(names[1].split())  # but for an old dialect of BERT


@pytest.mark.parametrize("family", tiny_checkpoints.CONFIGS)
def test_every_word_of_the_course_is_one_token(family):
    tokenizer = Tokenizer.from_file(str(real_models.shipped(family) / "tokenizer.json"))
    for text in sentences(50, "test", seed=3):
        tokens = tokenizer.encode(tiny_checkpoints.written(text), add_special_tokens=False).tokens
        assert [token.lstrip("Ġ").lower() for token in tokens] == [*text.words, "."]
    if family == "bert":
        assert set(vocabulary()[2:]) < tokenizer.get_vocab().keys()


def test_what_is_asked_of_the_language_models_can_be_known():
    tokenizer = Tokenizer.from_file(str(real_models.shipped("gpt2") / "tokenizer.json"))
    texts = [tiny_checkpoints.written(text) for text in sentences(99, "train", seed=2)]
    ids, targets = next(tiny_checkpoints.next_token_batches(tokenizer, texts, seed=5))
    asked, rows = targets >= 0, tiny_checkpoints.ROWS
    assert torch.equal(targets[asked], ids[:, 1:][asked])
    assert asked[:rows].all()
    assert tokenizer.decode(ids[0].tolist()) in "".join(texts)
    for row, known in zip(ids[rows:], asked[rows:], strict=True):
        period = int((~known).sum()) + 1
        assert torch.equal(row[period:], row[:-period])
        assert known[period - 1 :].all()


def test_hidden_words_put_back_make_a_sentence_of_the_course():
    tokenizer = Tokenizer.from_file(str(real_models.shipped("bert") / "tokenizer.json"))
    ids, mask, targets = next(tiny_checkpoints.masked_batches(tokenizer, seed=5))
    assert torch.equal(mask, ids != 0)
    stops = 0
    for row in targets.where(targets >= 0, ids).tolist():
        cls, *words, sep = (tokenizer.id_to_token(number) for number in row if number)
        stops += words[-1] == "."
        assert (cls, sep) == ("[CLS]", "[SEP]")
        assert recognise(words[: -1 if words[-1] == "." else None])
    assert 0.3 < stops / len(ids) < 0.7


@pytest.mark.parametrize("family", tiny_checkpoints.CONFIGS)
def test_what_ships_is_named_as_on_the_hub_and_holds_every_number(family):
    """So what a learner sees in a small file is also in the published one."""
    folder = real_models.shipped(family)
    first = {"gpt2": "wte.weight", "bert": "bert.embeddings.word_embeddings.weight",
             "llama": "model.embed_tokens.weight"}  # fmt: skip
    tensors = load_file(folder / "model.safetensors")
    assert first[family] in tensors
    stored = {x.sum().item() for x in tensors.values()}
    assert {x.sum().item() for x in real_models.load(folder).parameters()} <= stored
