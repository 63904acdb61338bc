"""Small models built on the reference attention, and the loop that trains them.

Axes: B sentences, S tokens, C = d_model width, V words in the vocabulary, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError


class EncoderBlock(nn.Module):
    """Let tokens exchange (attention), then let each think (feed-forward), both added to what was there.

    Pre-norm: x + attention(norm1(x)), then x + feed_forward(norm2(x)).

    Args: d_model is C, num_heads divides it, d_ff is the width inside the feed-forward part.
    Reference: Xiong et al. 2020, On Layer Normalization in the Transformer Architecture, figure 1b.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map x (B, S, C) to (B, S, C); mask as for MultiHeadAttention."""
        mixed, _ = self.attention(self.norm1(x), mask=mask, need_weights=False)
        x = x + mixed  # (B, S, C)
        return x + self.feed_forward(self.norm2(x))  # (B, S, C)


class MaskedWordModel(nn.Module):
    """Guess words from the words around them, as BERT does, at a size that trains in two minutes.

    Args: vocab_size is V, max_len the longest sentence, the others as for EncoderBlock.
    Raises: ShapeError for a sentence longer than max_len.
    Reference: Devlin et al. 2019, BERT, section 3.1, task 1.
    """

    def __init__(
        self, vocab_size: int, max_len: int, *, d_model: int, num_heads: int, d_ff: int, num_layers: int
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.to_words = nn.Linear(d_model, vocab_size)

    @property
    def blocks(self) -> list[EncoderBlock]:
        """The layers, first to last."""
        return [layer for layer in self.layers if isinstance(layer, EncoderBlock)]

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ids (B, S) to one logit a word, (B, S, V)."""
        x = self.embed(ids)  # (B, S, C)
        for block in self.blocks:
            x = block(x, mask)  # (B, S, C)
        return self.to_words(self.norm(x))  # (B, S, V)

    def embed(self, ids: Tensor) -> Tensor:
        """Add what each word is to where it stands: ids (B, S) to (B, S, C)."""
        length, longest = ids.size(1), self.position_embedding.num_embeddings
        if length > longest:
            raise ShapeError(
                "MaskedWordModel", "the sentence is too long", expected=f"S <= {longest}", got=f"S={length}"
            )
        return self.token_embedding(ids) + self.position_embedding.weight[:length]  # (B, S, C)

    def attention_inputs(self, ids: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """Return what enters the attention of each layer, L tensors of (B, S, C)."""
        x, inputs = self.embed(ids), []
        for block in self.blocks:
            inputs.append(block.norm1(x))
            x = block(x, mask)  # (B, S, C)
        return inputs

    def attention_weights(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S)."""
        inputs = self.attention_inputs(ids, mask)
        pairs = zip(self.blocks, inputs, strict=True)
        return torch.stack([block.attention(x, mask=mask)[1] for block, x in pairs])  # (L, B, H, S, S)


def train(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, ...]],
    loss: Callable[..., Tensor],
    *,
    steps: int,
    lr: float,
    progress: bool = True,
) -> list[float]:
    """Train with AdamW and return the loss of every step.

    Args: ``loss(model, *batch)`` is called on the first ``steps`` batches; lr is the highest learning rate
        of a one-cycle schedule, reached after 30 % of the steps; progress shows a bar.
    Runs on one thread, so that two runs on one machine give the same bits.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps)
    threads, losses = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for _, batch in zip(tqdm(range(steps), disable=not progress), batches, strict=False):
            optimizer.zero_grad()
            value = loss(model, *batch)
            value.backward()
            optimizer.step()
            schedule.step()
            losses.append(value.item())
    finally:
        torch.set_num_threads(threads)
    return losses


def masked_word_loss(model: nn.Module, ids: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy at the positions with a target; the others hold -100."""
    return F.cross_entropy(model(ids, mask).flatten(0, 1), targets.flatten(), ignore_index=-100)
