"""Checkpoints as lesson 18 opens them: by name or folder, from a hub, their tokens and heads."""

import hashlib
import json
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import huggingface_hub.constants
import pytest
import torch
from rewriting import refused
from safetensors.torch import load_file, save_file

from mha_course import masks, positions
from mha_course.datasets.grammar import Sentence
from mha_course.errors import SentenceError, ShapeError
from mha_course.lessons.l18_real_models import exercises, real_models

L, B, H, S = 3, 4, 5, 14
COMMIT = "0123456789" * 4
opened = pytest.fixture(lambda request: real_models.open_checkpoint(request.param))
each = pytest.mark.parametrize("opened", real_models.PUBLISHED, indirect=True)


class Hub(BaseHTTPRequestHandler):
    """Answer /OWNER/NAME/resolve/REVISION/FILE as the hub does, with files of the server."""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        owner, _, _, revision, file = self.path.strip("/").split("/")
        self.server.asked.append((revision, file))
        body = self.server.files.get(file)
        error = "RepoNotFound" if owner == "nobody" else None if body else "EntryNotFound"
        self.send_response(404 if error else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        if error:
            self.send_header("X-Error-Code", error)
        body = b"" if error else body
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    def do_GET(self):
        self.wfile.write(self.do_HEAD())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine that has the files of one small model, and an empty cache."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []
    server.files = {file.name: file.read_bytes() for file in real_models.shipped("llama").iterdir()}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    pattern = url + "/{repo_id}/resolve/{revision}/{filename}"
    constants = {
        "ENDPOINT": url, "HUGGINGFACE_CO_URL_TEMPLATE": pattern, "HF_HUB_OFFLINE": False,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    for name, value in constants.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    yield server
    server.shutdown()
    server.server_close()


def test_what_is_fetched_is_of_one_commit_and_comes_once(hub, monkeypatch):
    own = real_models.open_checkpoint("someone/llama")
    want = real_models.open_checkpoint("llama")
    ids, tokens = own.encode("The grey cat.")
    assert (tokens, own.small) == (want.encode("The grey cat.")[1], False)
    assert torch.equal(own.model(ids).logits, want.model(ids).logits)
    revisions = {file: {rev for rev, asked in hub.asked if asked == file} for file in hub.files}
    assert revisions["tokenizer.json"] == revisions["model.safetensors"] == {COMMIT}
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    real_models.open_checkpoint("someone/llama")
    assert hub.asked == []


def test_a_model_in_several_files_is_fetched_whole(hub, tmp_path):
    tensors = load_file(real_models.shipped("llama") / "model.safetensors")
    files = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        part = {name: tensors[name] for name in files if files[name] == file}
        save_file(part, tmp_path / file, metadata={"format": "pt"})
        hub.files[file] = (tmp_path / file).read_bytes()
    del hub.files["model.safetensors"]
    hub.files["model.safetensors.index.json"] = json.dumps(
        {"metadata": {}, "weight_map": files}
    ).encode()
    own, want = real_models.open_checkpoint("someone/llama"), real_models.open_checkpoint("llama")
    ids, _ = want.encode("The grey cat.")
    assert torch.equal(own.model(ids).logits, want.model(ids).logits)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nobody/llama", "RepositoryNotFoundError"), ("some one/llama", "HFValidationError")],
)
def test_what_cannot_be_had_is_one_message(name, reason, hub):
    with pytest.raises(
        ShapeError, match=rf"(?s)^fetch: {name} cannot be fetched\. .*, got {reason}"
    ):
        real_models.open_checkpoint(name)


def test_without_a_network_one_line_says_why_and_the_small_one_is_opened(hub, monkeypatch, capsys):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("MHA_COURSE_REAL", "1")
    assert real_models.open_checkpoint("bert").small
    line = capsys.readouterr().out
    assert line.startswith("google-bert/bert-base-uncased cannot be fetched (OfflineModeIsEnabled")
    assert line.endswith("This is the course's small checkpoint in the format of BERT base.\n")
    assert line.count("\n") == 1


def test_real_ones_are_those_of_a_known_revision(hub, capsys):
    assert not real_models.open_checkpoint("llama", real=True).small
    assert capsys.readouterr().out == "SmolLM2-135M, as it is published.\n"
    assert {revision for revision, _ in hub.asked} <= {
        real_models.PUBLISHED["llama"].revision,
        COMMIT,
    }
    assert hub.asked[0] == (real_models.PUBLISHED["llama"].revision, "config.json")


def test_a_folder_of_ones_own_is_opened_without_a_network(tmp_path, monkeypatch, capsys):
    asked = mock.Mock(side_effect=AssertionError("a local folder asks the network"))
    monkeypatch.setattr(socket, "getaddrinfo", asked)
    folder = shutil.copytree(real_models.shipped("llama"), tmp_path / "mine" / "cats")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (folder, "~/mine/cats"):
        own = real_models.open_checkpoint(name)
        assert own.model(own.encode("The grey cat.")[0]).logits.size(1) > 3
        assert not own.small
        assert capsys.readouterr() == ("cats, from your folder.\n", "")  # no bar, no warning
    (folder / "tokenizer.json").unlink()
    message = (
        "open_checkpoint: the tokenizer must be next to the model. expected a file "
        "tokenizer.json, got none in cats"
    )
    refused(lambda: real_models.open_checkpoint(folder).encode("The"), message)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ShapeError, match="load: transformers cannot open this model"):
        _ = real_models.open_checkpoint(folder).model


def test_a_name_that_is_none_is_refused():
    message = (
        "open_checkpoint: no model has this name. expected gpt2, bert, llama, a folder, or "
        "OWNER/NAME of a public model, got 'bert-base'"
    )
    refused(lambda: real_models.open_checkpoint("bert-base"), message)


@each
def test_a_text_is_as_long_as_the_model_can_read(opened):
    word = "cat " if opened.folder.name == "bert" else ","
    with pytest.raises(
        SentenceError, match=r"encode: the text has 6[57] tokens: 1 to 64 can be read\. expected"
    ):
        opened.encode(word * 65)
    assert opened.model(opened.encode(word * 62)[0]).logits.isfinite().all()


def test_a_text_without_tokens_is_refused_as_a_sentence():
    with pytest.raises(SentenceError, match="encode: the text has 0 tokens"):
        real_models.open_checkpoint("llama").encode("")


@each
def test_the_names_of_a_layers_attention_are_those_of_the_file(opened):
    stored = load_file(opened.folder / "model.safetensors")
    for layer in (0, 1):
        wanted = [
            name
            for name in stored
            if f".{layer}." in name and "att" in name and "norm" not in name.lower()
        ]
        shapes = {name: tuple(stored[name].shape) for name in sorted(wanted)}
        assert real_models.stored_attention(opened.folder, layer) == shapes


def test_scores_are_means_of_single_weights():
    weights = torch.rand(
        L, B, H, S, S, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    period = S // 2
    pairs = {  # from and to
        real_models.previous_token_scores: [(t, t - 1) for t in range(1, S)],
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
    # of a word in pieces the last
    assert placed[0].pairs == {"pronoun": ((7, 5),), "odd": ((4, 1), (6, 4))}
    assert placed[1].pairs == {"pronoun": ((3, 2),)}
    assert (mask.sum(-1).tolist(), ids.shape) == ([9, 5], (2, 9))
    assert bert.tokenizer.decode(ids[1, :5].tolist()) == "the cat it"


@each
def test_weights_are_those_of_one_text_whatever_stands_beside_it(opened):
    ids, _ = opened.encode("the grey cat saw the loud dogs")
    alone = real_models.attention_weights(opened.model, ids)
    padded = torch.nn.functional.pad(ids, (0, 2))
    mask = torch.arange(padded.size(1))[None] < ids.size(1)
    beside = real_models.attention_weights(opened.model, padded, mask)
    assert alone.shape == (2, 1, 4, ids.size(1), ids.size(1))
    assert torch.allclose(beside[..., : ids.size(1), : ids.size(1)], alone, atol=1e-6)
    assert torch.allclose(alone.sum(-1), torch.ones(2, 1, 4, ids.size(1)))


@each
def test_an_untrained_model_has_the_same_shapes_and_other_numbers(opened):
    first, again, other = opened.untrained(), opened.untrained(), opened.untrained(seed=1)
    name = next(name for name, x in first.named_parameters() if x.dim() == 2)
    shapes = {key: x.shape for key, x in opened.model.named_parameters()}
    assert {key: x.shape for key, x in first.named_parameters()} == shapes
    assert torch.equal(first.get_parameter(name), again.get_parameter(name))
    for model in (other, opened.model):
        assert not torch.allclose(first.get_parameter(name), model.get_parameter(name), atol=1e-2)


def test_heads_are_off_inside_with_and_on_again_after_it():
    """A head adds nothing whose rows of the output projection are 0, stored as (in, out)."""
    gpt2 = real_models.open_checkpoint("gpt2")
    ids, _ = gpt2.encode("The grey cat saw the loud dogs.")
    before = gpt2.model(ids).logits
    heads = [(0, 1), (0, 3), (1, 2)]
    with real_models.heads_off(gpt2.model, heads):
        without = gpt2.model(ids).logits
    assert torch.equal(gpt2.model(ids).logits, before)
    changed = real_models.load(gpt2.folder)
    for layer, head in heads:
        changed.transformer.h[layer].attn.c_proj.weight[16 * head : 16 * head + 16] = 0.0
    assert torch.allclose(without, changed(ids).logits, atol=1e-5)
    assert not torch.allclose(without, before, atol=1e-2)
    assert real_models.all_heads(gpt2.model) == [(layer, h) for layer in (0, 1) for h in range(4)]


def test_the_solution_computes_a_layer_of_gpt2_as_the_library_does():
    layer = real_models.open_checkpoint("gpt2").model.transformer.h[1]
    x = torch.randn(2, 7, 64, generator=torch.Generator().manual_seed(0))
    wanted, _ = layer.attn(x, attention_mask=masks.additive_mask(masks.causal_mask(7), x.dtype))
    solved = exercises.gpt2_attention(x, layer.attn.state_dict(), 4)
    assert (solved - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_the_solution_brings_rows_of_meta_into_the_order_of_the_file():
    layer = real_models.open_checkpoint("llama").model.model.layers[0].self_attn
    for weight, heads in ((layer.q_proj.weight, 4), (layer.k_proj.weight, 2)):
        of_heads = weight.unflatten(0, (heads, -1)).mT  # (H, C, D)
        metas = positions.to_interleaved(of_heads).mT.flatten(0, 1)
        assert not torch.equal(metas, weight)
        assert torch.equal(exercises.to_half_split(metas, heads), weight)
