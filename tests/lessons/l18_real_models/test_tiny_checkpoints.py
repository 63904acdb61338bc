"""The checkpoints that ship: what they are worth, and that the seed makes them again."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.lessons.l15_language_model.parsing import recognise
from mha_course.lessons.l18_real_models import tiny_checkpoints
from mha_course.models import checkpoints


@pytest.mark.weekly
@pytest.mark.parametrize("family", tiny_checkpoints.CONFIGS)
def test_they_are_made_again_from_the_seed(family, tmp_path, monkeypatch):
    monkeypatch.setitem(tiny_checkpoints.TRAINING, family, (3, 1e-3))
    made = []
    for number in range(2):
        model, config, tokenizer = tiny_checkpoints.make(family)
        tiny_checkpoints.save(model, config, tmp_path / str(number))
        made.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert made[0] == made[1]
    shipped = checkpoints.shipped(family)
    assert config == json.loads((shipped / "config.json").read_text())
    assert json.loads(tokenizer.to_str()) == json.loads(
        (shipped / "tokenizer.json").read_text(encoding="utf-8")
    )
    ids = torch.randint(config["vocab_size"], (2, 9))
    assert torch.equal(checkpoints.load(tmp_path / "0")(ids), model(ids))


@pytest.mark.parametrize("family", tiny_checkpoints.CONFIGS)
def test_every_word_of_the_course_is_one_token(family):
    tokenizer = Tokenizer.from_file(str(checkpoints.shipped(family) / "tokenizer.json"))
    for text in sentences(50, "test", seed=3):
        tokens = tokenizer.encode(tiny_checkpoints.written(text), add_special_tokens=False).tokens
        assert [token.lstrip("Ġ").lower() for token in tokens] == [*text.words, "."]
    if family == "bert":
        assert set(vocabulary()[2:]) < tokenizer.get_vocab().keys()


def test_what_is_asked_of_the_language_models_can_be_known():
    tokenizer = Tokenizer.from_file(str(checkpoints.shipped("gpt2") / "tokenizer.json"))
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
    tokenizer = Tokenizer.from_file(str(checkpoints.shipped("bert") / "tokenizer.json"))
    ids, mask, targets = next(tiny_checkpoints.masked_batches(tokenizer, seed=5))
    assert torch.equal(mask, ids != 0)
    stops = 0
    for row in targets.where(targets >= 0, ids).tolist():
        cls, *words, sep = (tokenizer.id_to_token(number) for number in row if number)
        stops += words[-1] == "."
        assert (cls, sep) == ("[CLS]", "[SEP]")
        assert recognise(words[: -1 if words[-1] == "." else None])
    assert 0.3 < stops / len(ids) < 0.7


@pytest.mark.parametrize("kind", checkpoints.SHIPPED)
def test_the_course_writes_names_as_the_hub_has_them(kind, tmp_path):
    """So what a learner sees in a small file is also in the published one."""
    folder = checkpoints.shipped(kind)
    config = checkpoints.read_config(folder, "test")
    tiny_checkpoints.save(checkpoints.load(folder), config, tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert names == load_file(folder / "model.safetensors").keys()
    first = {"gpt2": "wte.weight", "bert": "bert.embeddings.word_embeddings.weight",
             "llama": "model.embed_tokens.weight"}  # fmt: skip
    assert first[kind] in names
