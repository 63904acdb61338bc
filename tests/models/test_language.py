"""Sentences as ids, and the loss of each next word."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.datasets import grammar
from mha_course.errors import ShapeError
from mha_course.models import language

IDS = language.encode([text.words for text in grammar.sentences(300, "train", seed=5)])


def test_each_sentence_has_a_start_and_an_end():
    assert IDS.shape == (300, language.LONGEST)
    assert (IDS[:, 0] == language.START).all()
    assert ((IDS == language.END).sum(1) == 1).all()
    assert len(set(language.WORDS)) == len(language.WORDS) == 128


def test_the_loss_is_the_mean_of_all_words_without_padding():
    torch.manual_seed(0)
    model = nn.Embedding(128, 128)
    real = IDS[:, 1:] != language.PAD
    want = F.cross_entropy(model(IDS[:, :-1])[real], IDS[:, 1:][real])
    torch.testing.assert_close(language.language_loss(model, IDS), want)


ERRORS = {
    "encode: there must be a sentence. expected one or more, got none": lambda: language.encode([]),
    "words of language.WORDS, got 'whale', '<pad>'": lambda: language.encode(
        [["the", "whale", "<pad>"]]
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_messages(message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        ERRORS[message]()
