"""Small models on the reference attention, and published models with your own."""

from mha_course.models.blocks import Encoder, EncoderBlock, MaskedWordModel, WordModel
from mha_course.models.training import masked_word_loss, random_batches, seeded, train

__all__ = [
    "Encoder", "EncoderBlock", "MaskedWordModel", "WordModel",
    "masked_word_loss", "random_batches", "seeded", "train",
]  # fmt: skip
