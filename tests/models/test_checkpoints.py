"""Published checkpoints against the library that publishes them; and what is refused."""

import json
import pickle

import pytest
import torch
from rewriting import fails, refused
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import TorchDispatchMode

from mha_course.errors import SentenceError, ShapeError
from mha_course.lessons.l15_language_model.causal_model import generate
from mha_course.models import checkpoints, published

library = pytest.importorskip(
    "transformers", reason="checkpoints are compared with transformers': tests/requirements.txt"
)

B, S, C, L, V, PLACES = 3, 7, 24, 2, 31, 11
GPT2 = {
    "n_embd": C, "n_head": 4, "n_layer": L, "vocab_size": V, "n_positions": PLACES,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BERT = {
    "hidden_size": C, "num_attention_heads": 4, "num_hidden_layers": L, "intermediate_size": 10,
    "vocab_size": V,
    "max_position_embeddings": PLACES, "type_vocab_size": 3,
}  # fmt: skip
LLAMA = {
    "hidden_size": C, "num_attention_heads": 4, "num_hidden_layers": L, "intermediate_size": 10,
    "vocab_size": V,
    "num_key_value_heads": 2, "max_position_embeddings": PLACES,
}  # fmt: skip
RELATIVE = LLAMA | {"hidden_size": 48, "num_attention_heads": 8, "num_key_value_heads": 4}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
KNOWN = published.listed(checkpoints.FAMILIES)
CLASSES = {kind: family.classes[0] for kind, family in checkpoints.FAMILIES.items()}
PLAIN = {
    "gpt2": GPT2, "bert": BERT, "llama": LLAMA,
    "qwen2": RELATIVE, "qwen3": RELATIVE | {"head_dim": 14},
    "mistral": RELATIVE | {"sliding_window": 5},
}  # fmt: skip
CONFIGS = {
    "gpt2": ("gpt2", GPT2),
    "gpt2, one head": ("gpt2", GPT2 | {"n_head": 1}),
    "gpt2, an inner width": ("gpt2", GPT2 | {"n_inner": 10}),
    "gpt2, relu, eps": ("gpt2", GPT2 | {"activation_function": "relu", "layer_norm_epsilon": 0.1}),
    "gpt2, untied": ("gpt2", GPT2 | {"tie_word_embeddings": False}),
    "bert": ("bert", BERT),
    "bert, six heads": ("bert", BERT | {"num_attention_heads": 6}),
    "bert, gelu_new, eps": ("bert", BERT | {"hidden_act": "gelu_new", "layer_norm_eps": 0.1}),
    "bert, untied": ("bert", BERT | {"tie_word_embeddings": False}),
    "llama": ("llama", LLAMA),
    "llama, not grouped": ("llama", LLAMA | {"num_key_value_heads": None}),
    "llama, one for all": ("llama", LLAMA | {"num_key_value_heads": 1}),
    "llama, three to one": ("llama", LLAMA | {"num_attention_heads": 6}),
    "llama, tied": ("llama", LLAMA | {"tie_word_embeddings": True}),
    "llama, biases": ("llama", LLAMA | {"attention_bias": True, "mlp_bias": True}),
    "llama, wide heads": ("llama", LLAMA | {"head_dim": 10}),
    "llama, base, gelu, eps": ("llama", LLAMA | {"rope_theta": 100.0, "hidden_act": "gelu",
        "rms_norm_eps": 0.1}),
    "llama 3": ("llama", RELATIVE | {"head_dim": 14, "rope_parameters": LLAMA3}),
    "qwen2": ("qwen2", PLAIN["qwen2"]),
    "qwen2, tied": ("qwen2", RELATIVE | {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", PLAIN["qwen3"]),
    "qwen3, biases, eps": ("qwen3", PLAIN["qwen3"] | {"attention_bias": True,
        "rms_norm_eps": 0.1}),
    "mistral": ("mistral", PLAIN["mistral"]),
    "mistral, no window": ("mistral", RELATIVE | {"sliding_window": None}),
    "mistral, a wide window": ("mistral", RELATIVE | {"sliding_window": 40, "head_dim": 14}),
}  # fmt: skip
LEFT = torch.tensor([7, 4, 1])[:, None] > torch.arange(S).flip(0)
MASKS = {"none": None, "right": LEFT.flip(1), "left": LEFT}


def publish(folder, kind, changes=(), seed=0):
    """Let the library write a random model without any default number; return it."""
    torch.manual_seed(seed)
    cls = getattr(library, CLASSES[kind])
    config = cls.config_class(**PLAIN[kind] | dict(changes))
    config._attn_implementation = "eager"
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    return model


def ids(seed=1):
    return torch.randint(V, (B, S), generator=torch.Generator().manual_seed(seed))


def close(got, want):
    assert got.dtype == torch.float32
    assert got.shape == want.shape
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5), (got - want).abs().max()


def agrees(ours, theirs, mask=None, tokens=None):
    """Demand the library's logits and weights at every token that is no padding."""
    tokens = ids() if tokens is None else tokens
    options = {} if mask is None else {"attention_mask": mask.long()}
    with torch.no_grad():
        want = theirs(tokens, output_attentions=True, **options)
    logits, weights = ours(tokens, mask), ours.attention_weights(tokens, mask)
    assert logits.isfinite().all()
    assert weights.isfinite().all()
    real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    close(logits[real], want.logits[real])
    close(weights.transpose(2, 3)[:, real], torch.stack(want.attentions).transpose(2, 3)[:, real])


def rewrite(folder, change):
    """Change the tensors of a file, as a function of all of them."""
    path = folder / "model.safetensors"
    save_file({name: x.clone() for name, x in change(load_file(path)).items()}, path)


def configure(folder, without=(), **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: x for name, x in config.items() if name not in without}))


def load_refused(folder, message):
    refused(lambda: checkpoints.load(folder), f"load: {message}")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_checkpoint_gives_what_the_library_gives(name, tmp_path):
    kind, config = CONFIGS[name]
    theirs = publish(tmp_path, kind, config)
    ours = checkpoints.load(tmp_path)
    for mask in MASKS.values():
        agrees(ours, theirs, mask)
    heads = theirs.config.num_attention_heads
    assert ours.attention_weights(ids()).shape == (L, B, heads, S, S)
    assert not ours.training
    assert not any(parameter.requires_grad for parameter in ours.parameters())
    assert {(x.dtype, x.device.type) for x in ours.parameters()} == {(torch.float32, "cpu")}


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("bert")])
def test_cached_in_chunks_is_the_whole_and_what_the_library_gives(name, tmp_path):
    kind, config = CONFIGS[name]
    theirs = publish(tmp_path, kind, config)
    ours = checkpoints.load(tmp_path)
    caches, past, chunks = ours.new_caches(), None, []
    for chunk in ids().split([3, 1, 2, 1], dim=1):
        chunks.append(ours(chunk, caches=caches))
        with torch.no_grad():
            want = theirs(chunk, past_key_values=past, use_cache=True)
        past = want.past_key_values
        close(chunks[-1], want.logits)
    assert torch.allclose(torch.cat(chunks, dim=1), ours(ids()), atol=2e-5)
    assert generate(ours, ids()[:, :2], 5).equal(generate(ours, ids()[:, :2], 5, cached=False))
    if kind == "gpt2":
        with pytest.raises(SentenceError, match=f"expected S <= {PLACES}, got S={2 * S}"):
            ours(ids(), caches=caches)
    with pytest.raises(ShapeError, match="caches are for causal models, and without a mask"):
        ours(ids(), LEFT, caches=ours.new_caches())


@pytest.mark.parametrize("kind", checkpoints.SHIPPED)
def test_what_ships_is_what_the_library_reads(kind):
    """Its tokenizers read the file, its models the tensors, none of them missing or unknown."""
    folder = checkpoints.shipped(kind)
    texts = ["The grey cat ate.", "Naïve? 42 “quotes”, and\nlines"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = [tokenizer.encode(text).ids for text in texts]
    assert library.AutoTokenizer.from_pretrained(folder)(texts)["input_ids"] == found
    assert kind == "bert" or tokenizer.decode_batch(found) == texts
    options = {"attn_implementation": "eager", "output_loading_info": True}
    theirs, loaded = getattr(library, CLASSES[kind]).from_pretrained(folder, **options)
    assert not any(loaded.values()), loaded
    tokens = pad_sequence([torch.tensor(one) for one in found], batch_first=True)
    mask = torch.tensor([len(one) for one in found])[:, None] > torch.arange(tokens.size(1))
    for masked in (None, mask):
        agrees(checkpoints.load(folder), theirs, masked, tokens)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "mistral"])
def test_a_family_that_does_not_ship_has_no_folder(kind):
    rule = "shipped: no small checkpoint of this family ships. expected gpt2, bert, llama, got "
    refused(lambda: checkpoints.shipped(kind), f"{rule}{kind!r}")


@pytest.mark.parametrize("name", CONFIGS)
def test_no_mask_is_made_where_none_is_needed(name, tmp_path):
    """Not by us, and not by a kernel: what is causal is called so."""
    kind, config = CONFIGS[name]
    publish(tmp_path, kind, config)
    model = checkpoints.load(tmp_path)
    hidden = model.window is not None and model.window < S
    for mask in (None, torch.ones(B, S, dtype=torch.bool)):
        assert bool(masks_made(model, mask)) == hidden
    assert masks_made(model, LEFT)
    if model.causal:
        assert bool(masks_made(model, None, caches=model.new_caches())) == hidden


def masks_made(model, mask, **options):
    """Return the bool tensors with an axis of S for queries and one for keys that a call makes."""
    with BoolsMade() as made:
        model(ids(), mask, **options)
    return [shape for shape in made.shapes if shape[-1:] == (S,) and shape[-2:] != (B, S)]


class BoolsMade(TorchDispatchMode):
    """Keep the shapes of all bool tensors that operations return."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **kwargs or {})
        if isinstance(out, torch.Tensor) and out.dtype == torch.bool:
            self.shapes.append(tuple(out.shape))
        return out


@pytest.mark.parametrize("kind", ["gpt2", "qwen3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_several_files_are_read_as_one(kind, dtype, tmp_path):
    theirs = publish(tmp_path, kind)
    for parameter in theirs.parameters():
        parameter.data = parameter.data.to(dtype)
    theirs.save_pretrained(tmp_path / "parts", max_shard_size="9KB")
    assert len(list((tmp_path / "parts").glob("model-0*-of-*.safetensors"))) > 2
    for parameter in theirs.parameters():
        parameter.data = parameter.data.float()
    agrees(checkpoints.load(tmp_path / "parts"), theirs, LEFT)


@pytest.mark.parametrize("kind", PLAIN)
def test_numbers_stay_in_the_mapped_file(kind, tmp_path, monkeypatch):
    """A transposed copy would cost a third of a gigabyte for the published GPT-2."""
    publish(tmp_path, kind)
    stored = load_file(tmp_path / "model.safetensors")
    monkeypatch.setattr(checkpoints, "load_file", lambda _: stored)
    places = {tensor.untyped_storage().data_ptr() for tensor in stored.values()}
    parameters = checkpoints.load(tmp_path).parameters()
    assert {x.untyped_storage().data_ptr() for x in parameters} <= places


@pytest.mark.parametrize("kind", PLAIN)
def test_every_tensor_takes_part(kind, tmp_path):
    """Each tensor changes the logits, but a key's bias, which moves a row's scores alike."""
    publish(tmp_path, kind)
    before = checkpoints.load(tmp_path)(ids())
    for name, x in load_file(tmp_path / "model.safetensors").items():
        other = x + torch.linspace(0.5, 1, x.numel()).view(x.shape)
        rewrite(tmp_path, lambda tensors, name=name, other=other: tensors | {name: other})
        after = checkpoints.load(tmp_path)(ids())
        assert torch.allclose(after, before, atol=1e-4) == name.endswith("key.bias"), name
        rewrite(tmp_path, lambda tensors, name=name, x=x: tensors | {name: x})


MASKS_OF_GPT2 = {
    f"h.{n}.attn.{name}": torch.ones(1) for n in range(L) for name in ("bias", "masked_bias")
}
DIALECTS = {
    "gpt2": (lambda name: name.removeprefix("transformer."), MASKS_OF_GPT2),
    "bert": (
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias",
            "LayerNorm.beta"),
        {
            "bert.pooler.dense.weight": torch.ones(C, C), "bert.pooler.dense.bias": torch.ones(C),
            "cls.seq_relationship.weight": torch.ones(2, C),
            "cls.seq_relationship.bias": torch.ones(2),
            "bert.embeddings.position_ids": torch.arange(PLACES)[None],
        },
    ),
    "bert without its prefix": (lambda name: name.removeprefix("bert."), {}),
    "llama": (lambda name: name,
        {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(3) for n in range(L)}),
    "llama without its prefix": (lambda name: name.removeprefix("model."),
        {"rotary_emb.inv_freq": torch.ones(3)}),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_read(dialect, tmp_path):
    theirs = publish(tmp_path, dialect.split()[0])
    names, more = DIALECTS[dialect]
    rewrite(tmp_path, lambda tensors: {names(name): x for name, x in tensors.items()} | more)
    written = load_file(tmp_path / "model.safetensors").keys()
    assert more.keys() < written or not any(name.startswith("bert.") for name in written)
    agrees(checkpoints.load(tmp_path), theirs, LEFT)


@pytest.mark.parametrize(("kind", "copy", "original"), [
    ("gpt2", "lm_head.weight", "transformer.wte.weight"),
    ("llama", "lm_head.weight", "model.embed_tokens.weight"),
    ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ("bert", "cls.predictions.decoder.bias", "cls.predictions.bias"),
])  # fmt: skip
def test_a_tied_tensor_may_be_there_twice_or_once(kind, copy, original, tmp_path):
    theirs = publish(tmp_path, kind, {"tie_word_embeddings": True})
    tensors = load_file(tmp_path / "model.safetensors")
    value = tensors.get(original, tensors.get(copy))
    for names in ((copy, original), (original,), (copy,)):
        others = {name: x for name, x in tensors.items() if name not in (copy, original)}
        written = others | dict.fromkeys(names, value)
        rewrite(tmp_path, lambda _, written=written: written)
        agrees(checkpoints.load(tmp_path), theirs)
    rewrite(tmp_path, lambda _: others)
    with pytest.raises(ShapeError, match="missing: "):
        checkpoints.load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions_become_float32(dtype, tmp_path):
    theirs = publish(tmp_path, "llama", {"tie_word_embeddings": True})
    for parameter in theirs.parameters():
        parameter.data = parameter.data.to(dtype).float()
    rewrite(tmp_path, lambda tensors: {name: x.to(dtype) for name, x in tensors.items()})
    ours = checkpoints.load(tmp_path)
    agrees(ours, theirs, LEFT)
    # tied, and converted once
    assert ours.to_words.weight.data_ptr() == ours.token_embedding.weight.data_ptr()


@pytest.mark.parametrize("rope", [
    {"rope_theta": 100.0},
    {"rope_theta": 100, "rope_scaling": None},
    {"rope_parameters": {"rope_theta": 100.0, "rope_type": "default"}},
    {"rope_parameters": {"rope_theta": 100.0}, "rope_theta": 7.0},
    {"rope_scaling": {"type": "default"}, "rope_theta": 100.0},
])  # fmt: skip
def test_the_base_of_rope_stands_in_several_places(rope, tmp_path):
    options = {"rope_theta": 100.0, "rope_type": "default"}
    theirs = publish(tmp_path, "llama", {"rope_parameters": options})
    names = {"rope_parameters", "rope_theta", "rope_scaling"}
    configure(tmp_path, without=names - rope.keys(), **rope)
    agrees(checkpoints.load(tmp_path), theirs)
    configure(tmp_path, without=rope)
    assert fails(agrees, checkpoints.load(tmp_path), theirs)


@pytest.mark.parametrize("rope", [
    {"rope_theta": 100.0, "rope_scaling": {"type": "llama3"}},
    {"rope_parameters": {"rope_theta": 100.0, "rope_type": "llama3"}},
])  # fmt: skip
def test_the_options_of_llama_3_stand_in_several_places(rope, tmp_path):
    theirs = publish(tmp_path, "llama", RELATIVE | {"rope_parameters": LLAMA3})
    options = {name: x for name, x in LLAMA3.items() if not name.startswith(("rope", "original"))}
    part = (rope.keys() - {"rope_theta"}).pop()
    configure(tmp_path, without=["rope_parameters"] if part == "rope_scaling" else [],
              **rope | {part: rope[part] | options}, max_position_embeddings=32)  # fmt: skip
    agrees(checkpoints.load(tmp_path), theirs)
    configure(tmp_path, max_position_embeddings=3)
    assert fails(agrees, checkpoints.load(tmp_path), theirs)


def test_a_window_that_is_not_named_is_that_of_the_first_mistral(tmp_path):
    publish(tmp_path, "mistral")
    configure(tmp_path, without=["sliding_window"])
    assert checkpoints.load(tmp_path).window == 4096


@pytest.mark.parametrize("kind", checkpoints.FAMILIES)
def test_every_setting_of_the_library_is_known(kind, tmp_path):
    everything = library.AutoConfig.for_model(kind, **PLAIN[kind]).to_dict()
    publish(tmp_path, kind)
    (tmp_path / "config.json").write_text(json.dumps(everything | {"architectures": None}))
    checkpoints.load(tmp_path)


@pytest.mark.parametrize("name", published.ACTIVATIONS)
def test_activations_are_those_of_the_library(name):
    x = torch.linspace(-6, 6, 101)
    close(published.ACTIVATIONS[name](x), library.activations.ACT2FN[name](x))


@pytest.mark.parametrize("kind", PLAIN)
def test_hidden_rows_stay_finite_and_padding_changes_nothing(kind, tmp_path):
    publish(tmp_path, kind)
    model, mask = checkpoints.load(tmp_path), LEFT.clone()
    mask[2] = False
    assert model(ids(), mask).isfinite().all()
    assert not model.attention_weights(ids(), mask)[:, 2].any()
    other = ids().where(mask, ids(seed=2))
    assert torch.equal(model(ids(), mask)[mask], model(other, mask)[mask])
    later = torch.cat((ids()[:, :4], ids(seed=2)[:, 4:]), dim=1)
    assert torch.allclose(model(ids())[:, :4], model(later)[:, :4]) == (kind != "bert")


def test_it_computes_on_as_many_threads_as_asked(tmp_path):
    publish(tmp_path, "llama")
    seen, before = [], torch.get_num_threads()
    for count in (2, None):
        model = checkpoints.load(tmp_path, num_threads=count)
        model.to_words.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        model(ids())
    assert seen == [2, before]
    assert torch.get_num_threads() == before


# What is refused


def test_what_is_not_there_is_said(tmp_path):
    rule = "the weights must be safetensors. expected model.safetensors, or "
    rule += "model.safetensors.index.json and what it lists, got "
    fix = ", fix: save_pretrained of the library it comes from"
    no_folder = "there is no such folder. expected a folder of a checkpoint, got 'no'"
    load_refused(tmp_path / "no", no_folder)
    of_config = "config.json must be there and hold an object. expected the published config.json"
    load_refused(tmp_path, f"{of_config}, got FileNotFoundError")
    for text, got in (("{", "JSONDecodeError"), ("[]", "list")):
        (tmp_path / "config.json").write_text(text)
        load_refused(tmp_path, f"{of_config}, got {got}")
    publish(tmp_path, "bert")
    (tmp_path / "model.safetensors").unlink()
    load_refused(tmp_path, rule + "none")
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    load_refused(tmp_path, rule + "pytorch_model.bin" + fix)
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.safetensors")
    with pytest.raises(ShapeError, match=r"got a file of that name that is none: "):
        checkpoints.load(tmp_path)


INDEX_ERRORS = [
    ("{", "JSONDecodeError"),
    ("[]", "TypeError"),
    ("{}", "KeyError"),
    ('{"weight_map": {"a": 1}}', "TypeError"),
    ('{"weight_map": {}}', "none"),
    ('{"weight_map": {"a": "../model.safetensors"}}', "../model.safetensors"),
    ('{"weight_map": {"a": "model.bin"}}', "model.bin"),
]


@pytest.mark.parametrize(("text", "got"), INDEX_ERRORS)
def test_an_index_that_does_not_fit_is_refused(text, got, tmp_path):
    publish(tmp_path, "bert")
    (tmp_path / "model.safetensors").rename(tmp_path / "a.safetensors")
    (tmp_path / checkpoints.INDEX).write_text(text)
    rule = "the index must list files of safetensors that lie beside it. expected "
    expected = f"model.safetensors, or {checkpoints.INDEX} and what it lists"
    load_refused(tmp_path, f"{rule}{expected}, got {got}")


def test_files_of_an_index_must_be_there_and_hold_each_tensor_once(tmp_path):
    publish(tmp_path, "bert")
    (tmp_path / "model.safetensors").rename(tmp_path / "a.safetensors")
    listed = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (tmp_path / checkpoints.INDEX).write_text(json.dumps(listed))
    rule = "the weights must be safetensors. expected "
    load_refused(tmp_path, f"{rule}b.safetensors, got FileNotFoundError")
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes())
    with pytest.raises(ShapeError, match="two tensors of the file are the same parameter"):
        checkpoints.load(tmp_path)


class Trap:
    """What a pickle can do to whoever opens it."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


WHOLE = (
    "this kind of RoPE is not supported. expected rope_type 'default' or 'llama3', of whole heads, "
    "got "
)
UNKNOWN = (
    "config.json has settings that are not known, and may make another model. "
    "expected none of these, got "
)
NOT_SUPPORTED = [
    ("gpt2", "scale_attn_by_inverse_layer_idx", False, True),
    ("bert", "position_embedding_type", "absolute", "relative_key"),
    ("llama", "sliding_window", None, 5),
    ("llama", "quantization_config", None, {}),
    ("qwen2", "use_sliding_window", False, True),
    ("qwen3", "layer_types", ["full_attention"], ["full_attention", "sliding_attention"]),
]
FLOAT = (
    "layer_norm_eps of config.json has the wrong type. expected a float, got layer_norm_eps='small'"
)
CONFIG_ERRORS = [
    ("bert", {"model_type": "t5"},
        f"the model_type of config.json is not known. expected {KNOWN}, got 't5'"),
    ("gpt2", {"n_layer": None},
        "n_layer must be a positive int. expected n_layer >= 1, got n_layer=None"),
    *((kind, {name: got},
        f"{name} of config.json is not supported. expected {expected!r}, got {got!r}")
        for kind, name, expected, got in NOT_SUPPORTED),
    ("gpt2", {"activation_function": "gelu_10"},
        "activation_function of config.json is not known. "
        "expected gelu, gelu_new, gelu_fast, gelu_pytorch_tanh and 3 more, got 'gelu_10'"),
    ("bert", {"layer_norm_eps": "small"}, FLOAT),
    ("llama", {"num_key_value_heads": 3},
        "num_key_value_heads must divide num_attention_heads. expected a divisor, got 3 and 4"),
    ("llama", {"rope_scaling": {"type": "linear", "factor": 2}},
        WHOLE + "{'type': 'linear', 'factor': 2}"),
    ("llama", {"rope_parameters": {"factor": 2.0}}, WHOLE + "{'factor': 2.0}"),
    ("llama", {"rope_parameters": LLAMA3 | {"low_freq_factor": None}},
        "the factors of RoPE must be positive, and the low one below the high one. expected "
        "factor > 0 and 0 < low_freq_factor < high_freq_factor, got 8.0, 0.0 and 4.0"),
    ("llama", {"rope_scaling": "x"}, WHOLE + "'x'"),
    ("llama", {"logit_scale": 0.1, "use_qk_norm": False}, UNKNOWN + "logit_scale, use_qk_norm"),
    ("gpt2", {"rope_theta": 100.0}, UNKNOWN + "rope_theta"),
    ("mistral", {"layer_types": ["full_attention"]}, UNKNOWN + "layer_types"),
    ("mistral", {"sliding_window": 0}, "sliding_window must be a positive int. expected "
        "sliding_window >= 1, got sliding_window=0"),
    ("bert", {"architectures": ["BertModel"]}, "architectures of config.json is not supported. "
        "expected BertForMaskedLM or BertForPreTraining, got ['BertModel']"),
    ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}},
        WHOLE + "{'partial_rotary_factor': 0.5}"),
    ("llama", {"rope_parameters": {"rope_theta": 0}},
        "rope_theta must be positive. expected rope_theta > 0, got 0"),
    ("llama", {"head_dim": 5}, "head_dim must be even. expected head_dim % 2 == 0, got head_dim=5"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "message"), CONFIG_ERRORS)
def test_a_config_that_is_not_supported_is_refused(kind, changes, message, tmp_path):
    publish(tmp_path, kind)
    configure(tmp_path, **changes)
    load_refused(tmp_path, message)
    for name, value in changes.items():
        if value is None:
            configure(tmp_path, without=[name])
            load_refused(tmp_path, message)


RELATIVES = {  # what a config is refused for that is called "llama" and is none
    "granite": "attention_multiplier, embedding_multiplier, logits_scaling, residual_multiplier",
    "gemma": "use_bidirectional_attention",
    "olmo": "clip_qkv",
    "cohere": "layer_norm_eps, logit_scale, use_qk_norm",
    "diffllama": "lambda_std_dev",
}


@pytest.mark.parametrize("kind", RELATIVES)
def test_another_model_that_calls_itself_llama_is_refused(kind, tmp_path):
    config = library.AutoConfig.for_model(kind).to_dict() | {"model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    load_refused(tmp_path, f"{UNKNOWN}{RELATIVES[kind]}")
    configure(tmp_path, architectures=["HeliumForCausalLM"])
    with pytest.raises(ShapeError, match="expected LlamaForCausalLM, got "):
        checkpoints.load(tmp_path)


NAMES = "the file must hold the tensors that config.json speaks of. expected "
SIZES = "the tensors must be floats of the sizes in config.json. expected "
FUSED = [f"h.{layer}.attn.c_attn.{kind}" for layer in range(L) for kind in ("bias", "weight")]
TENSOR_ERRORS = [
    ("gpt2", {"h.0.attn.rotary": 1},
        NAMES + "29 tensors, got missing: none; unknown: h.0.attn.rotary"),
    ("gpt2", {f"transformer.{name}": None for name in FUSED},
        NAMES + f"29 tensors, got missing: {', '.join(FUSED)}; unknown: none"),
    ("llama", {f"model.layers.{L}.mlp.up_proj.weight": 1},
        NAMES + f"21 tensors, got missing: none; unknown: layers.{L}.mlp.up_proj.weight"),
    ("gpt2", {"wte.weight": (V, C)}, "two tensors of the file are the same parameter. expected one "
        "name of each, got wte.weight, written twice"),
    ("gpt2", {"transformer.h.1.attn.c_attn.weight": (3 * C, C), "transformer.ln_f.bias": (C, 1)},
        SIZES + "h.1.attn.c_attn.weight (24, 72), ln_f.bias (24,), "
        "got (72, 24) float32, (24, 1) float32"),
    ("bert", {"bert.embeddings.LayerNorm.weight": torch.ones(C).int()},
        SIZES + "embeddings.LayerNorm.weight (24,), got (24,) int32"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "message"), TENSOR_ERRORS)
def test_tensors_that_do_not_fit_are_refused(kind, changes, message, tmp_path):
    """Changes are tensors or their sizes; None takes one away."""
    publish(tmp_path, kind)
    changed = {
        name: torch.ones(new) if isinstance(new, int | tuple) else new
        for name, new in changes.items()
    }

    def change(tensors):
        return {name: x for name, x in (tensors | changed).items() if x is not None}

    rewrite(tmp_path, change)
    load_refused(tmp_path, message)


def test_ids_and_masks_that_do_not_fit_are_refused(tmp_path):
    publish(tmp_path, "bert")
    model = checkpoints.load(tmp_path)
    for call in (model, model.attention_weights):
        wrong = {
            "ids must have 2 axes. expected (B, S), got (7,)": (ids()[0],),
            f"each id must be that of a word. expected 0 <= id < {V}, got {ids().min() + 5} "
            f"to {ids().max() + 5}": (ids() + 5,),
            "mask has the wrong B. expected (B=3, S=7), got (B=2, S=7)": (ids(), LEFT[:2]),
        }
        for message, given in wrong.items():
            refused(lambda call=call, given=given: call(*given), f"BERT: {message}")
        with pytest.raises(SentenceError, match=f"expected S <= {PLACES}, got S={2 * S}"):
            call(ids().repeat(1, 2))
        with pytest.raises(ShapeError, match="mask must be bool, True = a token"):
            call(ids(), LEFT.long())
        with pytest.raises(ShapeError, match="ids must be whole numbers"):
            call(ids().float())
