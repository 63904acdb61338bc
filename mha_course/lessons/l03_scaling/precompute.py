"""What ships of lesson 3: the running example's model, trained with other divisors than √D."""

from __future__ import annotations

from mha_course.experiments import precomputed
from mha_course.lessons.l03_scaling import scaling

SEEDS = (0, 1, 2)


def final_loss(seed: int, divisor: float) -> float:
    """Train the example's model with another divisor; return the mean of the last 100 losses."""
    losses = scaling.train_with(divisor, seed)
    return round(sum(losses[-100:]) / 100, 4)


def divisor_losses(seed: int) -> dict[str, float]:
    """Return the loss with each divisor that the lesson compares."""
    return {name: final_loss(seed, divisor) for name, divisor in scaling.divisors(12, 4).items()}


if __name__ == "__main__":
    precomputed.remake({"divisors": (divisor_losses, SEEDS)})
