"""A model that guesses the next word, and how it generates text.

Axes: B sentences, S tokens, C width, V words in the vocabulary, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.caching import KVCache
from mha_course.masks import causal_mask
from mha_course.models import WordModel


class CausalLanguageModel(WordModel):
    """Guess the next word from the words so far, as GPT does.

    Reference: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.
    """

    def forward(self, ids: Tensor, caches: Sequence[KVCache] | None = None) -> Tensor:
        """Map ids (B, S) to next-word logits, (B, S, V).

        With caches (see new_caches), ids are only the new words.
        """
        start = caches[0].length if caches else 0
        x = self.encoder(self.embed(ids, start), caches=caches, is_causal=not caches)  # (B, S, C)
        return self.to_words(x)  # (B, S, V)

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache for each layer."""
        return [KVCache() for _ in self.blocks]

    def attention_weights(self, ids: Tensor) -> Tensor:
        """Return the weights of all heads, (L, B, H, S, S)."""
        mask = causal_mask(ids.size(1), device=ids.device)  # (S, S)
        return self.encoder.attention_weights(self.embed(ids), mask)


def next_token_probabilities(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """Return the softmax of logits / temperature, (B, V), over each row's top_k logits, by default
    all.
    """
    scaled = logits / temperature  # (B, V)
    if top_k is not None:
        smallest = scaled.topk(top_k).values[:, -1:]  # (B, 1), of those that are kept
        scaled = scaled.masked_fill(scaled < smallest, -torch.inf)
    return scaled.softmax(-1)  # (B, V)


@torch.no_grad()
def generate(
    model: CausalLanguageModel, ids: Tensor, steps: int, *,
    temperature: float = 0.0, top_k: int | None = None, generator: torch.Generator | None = None,
    cached: bool = True,
) -> Tensor:  # fmt: skip
    """Append words one at a time: (B, S) to (B, S + steps).

    Args: temperature 0 takes the likeliest word; above 0, words are drawn from
        ``next_token_probabilities`` with generator; cached reads only the newest word in each step.
    """
    caches = model.new_caches() if cached else None
    for step in range(steps):
        logits = model(ids[:, -1:] if cached and step else ids, caches=caches)[:, -1]  # (B, V)
        if temperature == 0:
            chosen = logits.argmax(-1, keepdim=True)  # (B, 1)
        else:
            chances = next_token_probabilities(logits, temperature, top_k)  # (B, V)
            # Drawn on the generator's device, so that a seed gives the same words everywhere.
            device = ids.device if generator is None else generator.device
            chosen = torch.multinomial(chances.to(device), 1, generator=generator)  # (B, 1)
        ids = torch.cat((ids, chosen.to(ids.device)), dim=1)  # (B, S+1)
    return ids
