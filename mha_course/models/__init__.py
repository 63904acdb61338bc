"""Small models on the reference attention: blocks, and models of words, images and translations."""

from mha_course.models.blocks import (
    CausalLanguageModel,
    Encoder,
    EncoderBlock,
    MaskedWordModel,
    WordModel,
    generate,
    next_token_probabilities,
)
from mha_course.models.training import masked_word_loss, one_thread, random_batches, seeded, train

__all__ = [
    "CausalLanguageModel", "Encoder", "EncoderBlock", "MaskedWordModel", "WordModel", "generate",
    "masked_word_loss",
    "next_token_probabilities", "one_thread", "random_batches", "seeded", "train",
]  # fmt: skip
