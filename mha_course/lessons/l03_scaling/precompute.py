"""What ships of lesson 3: the running example's model, trained with other divisors than √D."""

from __future__ import annotations

from mha_course.experiments import precomputed
from mha_course.lessons.l03_scaling import scaling

SEEDS = (0, 1, 2)


def divisor_losses(seed: int) -> dict[str, float]:
    """Return the loss on held-out sentences after training with each divisor that is compared."""
    return {
        name: round(scaling.held_out_loss(scaling.train_with(divisor, seed)[0]), 4)
        for name, divisor in scaling.divisors(12, 4).items()
    }


if __name__ == "__main__":
    precomputed.remake({"divisors": (divisor_losses, SEEDS)})
