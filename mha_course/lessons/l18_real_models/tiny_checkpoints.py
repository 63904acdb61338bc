"""The three small checkpoints that ship: trained transformers models in the layouts of GPT-2, BERT
and Llama.

``python -m mha_course.lessons.l18_real_models.tiny_checkpoints [gpt2 bert llama]`` retrains them,
two minutes each.

Axes: B rows, S tokens, V tokens in the vocabulary.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, PreTrainedModel

from mha_course import example
from mha_course.datasets.grammar import Sentence, sentences, vocabulary
from mha_course.lessons.l18_real_models import real_models
from mha_course.models import seeded, train
from mha_course.positions import sinusoidal_encoding

# END comes before each text, as in training GPT-2 and SmolLM2
END = "<|endoftext|>"
PAD = "[PAD]"
MASK = "[MASK]"
SPECIAL = (PAD, "[UNK]", "[CLS]", "[SEP]", MASK)
PLACES, HALF, ROWS = 64, 32, 12
_COMMON = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": PLACES,
}
CONFIGS: dict[str, dict[str, Any]] = {  # dropout hurts so small a model
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4, "n_layer": 2,
        "n_inner": 128, "n_positions": PLACES, "bos_token_id": 0, "eos_token_id": 0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
    },
    "bert": _COMMON | {
        "architectures": ["BertForMaskedLM"], "intermediate_size": 128, "pad_token_id": 0,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    },
    "llama": _COMMON | {
        "architectures": ["LlamaForCausalLM"], "intermediate_size": 96, "num_key_value_heads": 2,
        "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
    },
}  # fmt: skip
# steps, and the learning rate
TRAINING = {"gpt2": (2500, 5e-3), "bert": (2000, 3e-3), "llama": (2500, 5e-3)}


def written(text: Sentence) -> str:
    """Write a sentence with a capital and a full stop."""
    return " ".join(text.words).replace(" ,", ",").capitalize() + "."


def byte_level(texts: Sequence[str], *, digits: bool) -> Tokenizer:
    """Learn byte pairs, in GPT-2's format; SmolLM2 first splits numbers into digits.

    Reference: Sennrich et al. 2016, section 3.2; of bytes: Radford et al. 2019, section 2.2.
    """
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(True), words]) if digits else words
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, min_frequency=2, special_tokens=[END], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def word_pieces() -> Tokenizer:
    """Know the course's words, and letters to spell others, in BERT's lower-case format.

    Reference: Wu et al. 2016, section 4.1; Devlin et al. 2019, section 3.
    """
    letters = string.ascii_lowercase + string.digits
    pieces = [*SPECIAL, *string.punctuation, *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in vocabulary()[2:] if word not in pieces]
    number = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(number, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", number["[SEP]"]), ("[CLS]", number["[CLS]"])
    )
    return tokenizer


def next_token_batches(
    tokenizer: Tokenizer, texts: Sequence[str], seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches: ids (B, S), half text, half repeated random tokens; and targets.

    Targets (B, S - 1) are the next tokens, or -100 in a random row's first pass.
    """
    generator = torch.Generator().manual_seed(seed)
    stream = torch.tensor(
        [id for text in tokenizer.encode_batch([END + text for text in texts]) for id in text.ids]
    )
    places = torch.arange(PLACES)
    while True:
        starts = torch.randint(len(stream) - PLACES, (ROWS, 1), generator=generator)
        period = torch.randint(6, HALF + 1, (ROWS, 1), generator=generator)
        drawn = torch.randint(tokenizer.get_vocab_size(), (ROWS, HALF), generator=generator)
        ids = torch.cat((stream[starts + places], drawn.gather(1, places % period)))  # (B, S)
        new = places[1:] < torch.cat((torch.zeros_like(starts), period))  # (B, S-1)
        yield ids, ids[:, 1:].masked_fill(new, -100)


def next_token_loss(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """Return the targets' mean cross-entropy, in nats."""
    return F.cross_entropy(model(ids).logits[:, :-1].flatten(0, 1), targets.flatten())


def hidden_word_loss(model: nn.Module, ids: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy at the hidden words; other targets (B, S) are -100."""
    logits = model(ids, attention_mask=mask.long()).logits  # (B, S, V)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def masked_batches(tokenizer: Tokenizer, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the running example's batches in BERT's form: [CLS], words, a full stop in half of the
    rows, [SEP].
    """
    (cls, stop, sep) = tokenizer.encode(".").ids
    plain = " ".join((PAD, MASK, *vocabulary()[2:]))
    encoding = tokenizer.encode(plain, add_special_tokens=False)
    number = torch.tensor(encoding.ids)  # of each course word
    generator = torch.Generator().manual_seed(seed)
    for words, may_attend, hidden in example.training_batches(seed):
        ids = F.pad(number[words], (1, 2))  # (B, S), a row is 3 longer than its words
        hidden_ids = number[hidden.clamp(min=0)].where(hidden >= 0, -100)
        targets = F.pad(hidden_ids, (1, 2), value=-100)  # (B, S)
        ends = may_attend.flatten(1).sum(1, keepdim=True) + 1  # (B, 1), the place after the words
        stops = (torch.rand(ends.shape, generator=generator) < 0.5).long()  # (B, 1)
        ids[:, 0] = cls
        ids = ids.scatter(1, ends, stop).scatter(1, ends + stops, sep)  # (B, S)
        yield ids, torch.arange(ids.size(1)) <= ends + stops, targets


def new_model(family: str, config: dict[str, Any], seed: int) -> PreTrainedModel:
    """Return an untrained model; learned positions start as waves."""
    settings = AutoConfig.for_model(family, attn_implementation="eager", **config)
    architecture = getattr(transformers, config["architectures"][0])
    with seeded(seed):
        model = architecture(settings)
        embedding = model.get_input_embeddings()
        nn.init.normal_(embedding.weight, std=0.1)
    for name, parameter in model.named_parameters():
        if name.endswith(("wpe.weight", "position_embeddings.weight")):
            parameter.data = 0.1 * sinusoidal_encoding(PLACES, parameter.size(1))
    return model


def make(family: str, seed: int = 0) -> tuple[PreTrainedModel, Tokenizer]:
    """Train a family's checkpoint; return the model and its tokenizer."""
    texts = [written(text) for text in sentences(20_000, "train", seed)]
    tokenizer = word_pieces() if family == "bert" else byte_level(texts, digits=family == "llama")
    config = {"vocab_size": tokenizer.get_vocab_size(), **CONFIGS[family]}
    model = new_model(family, config, seed)
    steps, lr = TRAINING[family]
    if family == "bert":
        train(model, masked_batches(tokenizer, seed), hidden_word_loss, steps=steps, lr=lr)
    else:
        batches = next_token_batches(tokenizer, texts, seed)
        train(model, batches, next_token_loss, steps=steps, lr=lr)
    return model.eval().requires_grad_(False), tokenizer


def save(model: PreTrainedModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Save a model as transformers does; GPT-2's names have no prefix, as on the hub."""
    is_gpt2 = model.config.model_type == "gpt2"
    base: Any = model.get_submodule(model.base_model_prefix) if is_gpt2 else model
    base.save_pretrained(folder)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    for family in sys.argv[1:] or CONFIGS:
        model, tokenizer = make(family)
        save(model, tokenizer, real_models.shipped(family))
