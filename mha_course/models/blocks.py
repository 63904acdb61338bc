"""Small models built on the reference attention: a block, a stack of blocks, a model of words.

Axes: B sentences or images, S tokens, C = d_model width, V words in the vocabulary, L layers, H
heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import MultiHeadAttention
from mha_course.caching import KVCache, decode_chunk
from mha_course.errors import SentenceError, require_device
from mha_course.variants import to_torch


class EncoderBlock(nn.Module):
    """Mix tokens (attention), then process each one (feed-forward); both add to the stream.

    Pre-norm (norm_first): x + attention(norm1(x)), then x + feed_forward(norm2(x)).
    Post-norm: norm1(x + attention(x)), then norm2(x + feed_forward(x)).

    Args: d_model is C, num_heads divides it, d_ff is the width inside the feed-forward part;
        dropout (0 to 1) applies to the weights, inside the feed-forward part, and to both parts'
        outputs.
    Reference: Vaswani et al. 2017, section 3.1 (post-norm); Xiong et al. 2020, figure 1 (both).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        norm_first: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm_first, self.d_ff = norm_first, d_ff
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, dropout=dropout)
        inner = nn.Linear(d_model, d_ff)
        outer = nn.Linear(d_ff, d_model)
        self.feed_forward = nn.Sequential(inner, nn.GELU(), nn.Dropout(dropout), outer)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Map x (B, S, C) to (B, S, C); mask and is_causal as for MultiHeadAttention.

        With a cache, x holds only the new tokens; each sees itself and all earlier ones.
        """
        if self.norm_first:
            x = x + self._attend(self.norm1(x), mask, cache, is_causal)  # (B, S, C)
            return x + self.dropout(self.feed_forward(self.norm2(x)))  # (B, S, C)
        x = self.norm1(x + self._attend(x, mask, cache, is_causal))  # (B, S, C)
        return self.norm2(x + self.dropout(self.feed_forward(x)))  # (B, S, C)

    def attention_input(self, x: Tensor) -> Tensor:
        """Return the attention's input for x (B, S, C)."""
        return self.norm1(x) if self.norm_first else x

    def to_torch(self) -> nn.TransformerEncoderLayer:
        """Return PyTorch's layer with the same weights, batch_first."""
        mha = self.attention
        options = {"batch_first": True, "norm_first": self.norm_first}
        layer = nn.TransformerEncoderLayer(
            mha.d_model, mha.num_heads, self.d_ff, self.dropout.p, F.gelu, **options
        )
        layer.to(self.norm1.weight)
        layer.norm1.load_state_dict(self.norm1.state_dict())
        layer.norm2.load_state_dict(self.norm2.state_dict())
        layer.linear1.load_state_dict(self.feed_forward[0].state_dict())
        layer.linear2.load_state_dict(self.feed_forward[3].state_dict())
        layer.self_attn.load_state_dict(to_torch(mha).state_dict())
        return layer.train(self.training)

    def _attend(
        self, x: Tensor, mask: Tensor | None, cache: KVCache | None, is_causal: bool
    ) -> Tensor:
        if cache is not None:
            return self.dropout(decode_chunk(self.attention, x, cache))
        mixed, _ = self.attention(x, mask=mask, need_weights=False, is_causal=is_causal)
        return self.dropout(mixed)


class Encoder(nn.Module):
    """Stack num_layers pre-norm blocks and a final norm. Args as for EncoderBlock."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)

    @property
    def blocks(self) -> list[EncoderBlock]:
        """The blocks, first to last."""
        return [layer for layer in self.layers if isinstance(layer, EncoderBlock)]

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        caches: Sequence[KVCache] | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Map x (B, S, C) to (B, S, C), with one cache for each layer; the rest as for a block."""
        for block, cache in itertools.zip_longest(self.blocks, caches or ()):
            x = block(x, mask, cache, is_causal=is_causal)  # (B, S, C)
        return self.norm(x)  # (B, S, C)

    def attention_inputs(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """Return what enters the attention of each layer, L tensors of (B, S, C)."""
        inputs = []
        for block in self.blocks:
            inputs.append(block.attention_input(x))
            x = block(x, mask)  # (B, S, C)
        return inputs

    def attention_weights(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S)."""
        inputs = zip(self.blocks, self.attention_inputs(x, mask), strict=True)
        return torch.stack([block.attention(x, mask=mask)[1] for block, x in inputs])


class TokenModel(nn.Module):
    """The base of models that read ids: an embedding and an encoder."""

    token_embedding: nn.Embedding
    encoder: Encoder

    @property
    def blocks(self) -> list[EncoderBlock]:
        """The encoder's blocks, first to last."""
        return self.encoder.blocks

    @property
    def device(self) -> torch.device:
        """The model's device, where its ids belong."""
        return self.token_embedding.weight.device


class WordModel(TokenModel):
    """Read words and give each position a logit for every word of the vocabulary.

    Args: vocab_size is V, max_len the longest sentence, the others as for Encoder.
    Raises: SentenceError for a sentence longer than max_len.
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        *,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.to_words = nn.Linear(d_model, vocab_size)

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Add word and position embeddings, counted from start: ids (B, S) to (B, S, C)."""
        require_device(type(self).__name__, "ids", ids, self.device, "the model")
        end = start + ids.size(1)
        longest = self.position_embedding.num_embeddings
        if end > longest:
            rule = f"the sentence has {end} words, more than the {longest} that can be read"
            got = f"S={end}"
            raise SentenceError(type(self).__name__, rule, expected=f"S <= {longest}", got=got)
        return self.token_embedding(ids) + self.position_embedding.weight[start:end]  # (B, S, C)


class MaskedWordModel(WordModel):
    """Guess words from the words around them, as BERT does.

    Reference: Devlin et al. 2019, BERT, section 3.1, task 1.
    """

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ids (B, S) to logits (B, S, V)."""
        return self.to_words(self.encoder(self.embed(ids), mask))  # (B, S, V)

    def attention_inputs(self, ids: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """Return what enters the attention of each layer, L tensors of (B, S, C)."""
        return self.encoder.attention_inputs(self.embed(ids), mask)

    def attention_weights(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S)."""
        return self.encoder.attention_weights(self.embed(ids), mask)
