"""Training for all of the course's models: from a seed, with AdamW, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the CPU's random numbers inside, then restore the caller's random state.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     bool(torch.rand(1) == first)
    True
    """
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):  # no GPU state is saved
        torch.manual_seed(seed)
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use a fixed number of threads inside.

    Training uses one. With more, partial sums are added in a different order, so the same seed
    could give a different model. And for such small tensors a second thread is slower: 80 ms per
    step of the running example, not 60.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, ...]],
    loss: Callable[..., Tensor],
    *,
    steps: int,
    lr: float,
    progress: bool = True,
    look: Callable[[nn.Module, int], object] | None = None,
    every: int = 100,
) -> list[float]:
    """Train with AdamW on one thread, and return every step's loss.

    Args: ``loss(model, *batch)`` is called on the first ``steps`` batches, moved to the model's
        device; lr is the highest learning rate of a one-cycle schedule, reached after 30 % of the
        steps; progress shows a bar; ``look(model, step)`` is called before the first step, then
        after ``every`` steps, and at the end.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps)
    losses = []
    device = next(model.parameters()).device
    with threads(1):
        # range comes first, so that zip stops without drawing one batch too many
        for step, batch in zip(tqdm(range(steps), disable=not progress), batches, strict=False):
            if look and step % every == 0:
                look(model, step)
            optimizer.zero_grad()
            value = loss(model, *(tensor.to(device) for tensor in batch))
            value.backward()
            optimizer.step()
            schedule.step()
            losses.append(value.item())
    if look:
        look(model, steps)
    return losses


def random_batches(data: Sequence[Tensor], size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield endless batches: the same rows of every tensor, drawn with replacement."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = torch.randint(len(data[0]), (size,), generator=generator, device="cpu")
        yield tuple(tensor[chosen] for tensor in data)


def masked_word_loss(model: nn.Module, ids: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy at the positions with a target; others have -100."""
    return F.cross_entropy(model(ids, mask).flatten(0, 1), targets.flatten(), ignore_index=-100)
