"""Speculative decoding: a small model drafts words, and a large one checks them in one pass.

Both map ids (B, S) to next-word logits, (B, S, V).

Axes: B sentences, S tokens, V words in the vocabulary, K drafts.
Reference: Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mha_course.lessons.l15_language_model.language_model import Predictor
from mha_course.models.language import END, LONGEST, PAD


def accept_or_redraw(p: Tensor, q: Tensor, draft: int, uniform: float) -> tuple[Tensor, Tensor]:
    """Return whether a draft is accepted, and the probabilities (V,) of its replacement: where p
    exceeds q, their difference, normalised; or p itself if the two are equal.
    """
    accepted = uniform < p[draft] / q[draft]
    excess = (p - q).clamp(min=0)  # (V,)
    residual = excess / excess.sum() if excess.any() else p  # (V,)
    return accepted, residual


@torch.no_grad()
def speculate(
    model: Predictor, small: Predictor, ids: Tensor, drafts: int, dice: torch.Generator
) -> tuple[Tensor, int]:
    """Continue ids (1, S) until <end> or the maximum length.

    Returns: ids (1, S'), in which words may follow <end>, and the large model's number of passes.
    """
    passes = 0
    while END not in ids and ids.size(1) < LONGEST:
        read = ids
        q = []
        for _ in range(min(drafts, LONGEST - 1 - ids.size(1))):
            q.append(small(read)[0, -1].softmax(-1).cpu())
            read = torch.cat((read, draw(q[-1], dice).to(ids.device)), dim=1)  # (1, S+1)
        p = model(read)[0, ids.size(1) - 1 :].softmax(-1).cpu()  # for each draft, and for one more
        passes += 1
        following = p[-1]  # the word after all drafts, if all are accepted
        for number, chances in enumerate(q):
            word = int(read[0, ids.size(1)])
            accepted, residual = accept_or_redraw(p[number], chances, word, throw(dice))
            if not accepted:
                following = residual
                break
            ids = read[:, : ids.size(1) + 1]
        ids = torch.cat((ids, draw(following, dice).to(ids.device)), dim=1)
    return ids, passes


def draw(chances: Tensor, dice: torch.Generator) -> Tensor:
    """Draw a word (1, 1) from probabilities (V,)."""
    return torch.multinomial(chances, 1, generator=dice)[None]  # (1, 1)


def throw(dice: torch.Generator) -> float:
    """Draw a number in [0, 1)."""
    return torch.rand((), generator=dice).item()


@torch.no_grad()
def surprisal(model: Predictor, small: Predictor, ids: Tensor, drafts: int) -> Tensor:
    """Return -ln P of each next word as ``speculate`` writes, (B, S - 1), 0 for padding.

    The probabilities of all ways to write a word are added: as a draft, redrawn, or after K
    accepted drafts. Which are possible depends on how many drafts of the pass are left.
    """
    words = ids[:, 1:, None].cpu()  # (B, S-1, 1)
    p, q = (f(ids[:, :-1]).softmax(-1).double().cpu() for f in (model, small))  # (B, S-1, V)
    as_draft = (q * (p / q).clamp(max=1)).nan_to_num(0.0)  # (B, S-1, V)
    refused = 1 - as_draft.sum(-1, keepdim=True)  # (B, S-1, 1)
    excess = (p - q).clamp(min=0)  # (B, S-1, V)
    redrawn = refused * (excess / excess.sum(-1, keepdim=True)).nan_to_num(0.0)  # (B, S-1, V)
    paths = [chances.gather(-1, words).squeeze(-1) for chances in (as_draft, redrawn, p)]
    # column n: the probability that n drafts of this pass are left; at first, all are
    left = torch.eye(drafts + 1, dtype=torch.float64)[-1:]  # (1, K+1)
    surprisals = []
    for draft, redraw, bonus in zip(*(path.unbind(1) for path in paths), strict=True):
        accepted = left[:, 1:] * draft[:, None]  # (B, K)
        new_pass = left[:, 1:].sum(-1) * redraw + left[:, 0] * bonus  # (B,)
        left = torch.cat((accepted, new_pass[:, None]), dim=1)  # (B, K+1)
        total = left.sum(-1)  # (B,)
        left = left / total[:, None]  # (B, K+1)
        surprisals.append(-total.log())
    return torch.stack(surprisals, dim=1).masked_fill(words[..., 0] == PAD, 0.0)  # (B, S-1)
