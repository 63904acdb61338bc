"""Lesson 10, Positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mha_course import positions
from mha_course.exercises.inputs import B, D, Draw, H, S, draw
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS


def _angles(n: int, width: int) -> Tensor:
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(n, dtype=torch.float64)[:, None] * rates


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(-2)


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    return _interleave(first, second).float()


def _per_index(n: int, width: int, times: int = 1) -> Tensor:
    rates = 10000.0 ** (-times * torch.arange(width, dtype=torch.float64) / width)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * rates
    return torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos()).float()


def _slipped(slip: Any) -> Any:
    """Return sinusoidal_encoding with another divisor of the position."""

    def sinusoidal_encoding(n: int, width: int) -> Tensor:
        rates = 1 / slip(torch.arange(0, width, 2, dtype=torch.float64), width)
        angles = torch.arange(n, dtype=torch.float64)[:, None] * rates
        return _interleaved(angles.sin(), angles.cos())

    return sinusoidal_encoding


def _without_minus(answer: Any, _: int, width: int) -> tuple[str, str] | None:
    """Find rising frequencies at one position: at later ones float32 has too few digits."""
    angles = 1 / _angles(2, width)
    rising = _interleaved(angles.sin(), angles.cos())[1]
    if not torch.allclose(answer(2, width)[1].to(rising), rising, atol=0.02):
        return None
    return "frequency-precedence", ROWS["frequency-precedence"].text


def _turned_too_fast(
    answer: Any, x: Tensor, at: Tensor, base: float = 1e4
) -> tuple[str, str] | None:
    """Find rising frequencies, in the same way."""
    ones = torch.ones_like(at)
    if not torch.allclose(
        answer(x, ones, base).to(x), positions.rope(x, ones, 1 / base), atol=0.02
    ):
        return None
    return "frequency-precedence", ROWS["frequency-precedence/rope"].text


def _turned(
    cos: Any = torch.cos, sin: Any = torch.sin, sign: int = -1, layout: str = "half"
) -> Any:
    """Return rope with other functions, another sign of the first sine, or another layout."""

    def rope(x: Tensor, at: Tensor, base: float = 1e4) -> Tensor:
        rates = base ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1))
        angles = torch.as_tensor(at).to(x.dtype)[:, None] * rates
        c, s = cos(angles), sin(angles)
        a, b = x.chunk(2, -1)
        if layout == "mixed":
            c, s = c.repeat_interleave(2, -1), s.repeat_interleave(2, -1)
            return x * c + torch.cat((-b, a), -1) * s
        if layout == "mixed neighbours":
            partners = _interleave(-x[..., 1::2], x[..., 0::2])
            return x * torch.cat((c, c), -1) + partners * torch.cat((s, s), -1)
        turned = a * c + sign * b * s
        if layout == "joined as neighbours":
            return _interleave(turned, a * s + b * c)
        if layout == "two minuses":
            return torch.cat((turned, a * s - b * c), -1)
        return torch.cat((turned, (turned if layout == "overwritten" else a) * s + b * c), -1)

    return rope


def _turned_by_head(x: Tensor, at: Tensor, base: float = 1e4) -> Tensor:
    """Rotate every token by its head's index."""
    return positions.rope(x.transpose(1, 2), range(x.size(1)), base).transpose(1, 2)


MISTAKES = [
    mistake(
        "sin-cos-swapped",
        sinusoidal_encoding=lambda n, c: _interleaved(_angles(n, c).cos(), _angles(n, c).sin()),
    ),
    mistake(
        "/wave-twice",
        sinusoidal_encoding=[
            lambda n, c: _interleaved(_angles(n, c).sin(), _angles(n, c).sin()),
            lambda n, c: _interleaved(_angles(n, c).cos(), _angles(n, c).cos()),
        ],
    ),
    mistake("sin-cos-swapped/rope", rope=_turned(torch.sin, torch.cos)),
    mistake(
        "frequency-per-index",
        sinusoidal_encoding=[_per_index, lambda n, c: _per_index(n, c, times=2)],
    ),
    mistake(
        "frequency-precedence",
        sinusoidal_encoding=[
            _slipped(lambda i, d: 10000.0 ** (i // d)),
            _slipped(lambda i, d: 10000.0 ** -(-i // d)),
            _slipped(lambda i, d: 10000.0**i / d),
            _slipped(lambda i, d: 10000.0 ** (2 * i / d)),
            _slipped(lambda i, d: 10000.0 ** (i / 2 / d)),
        ],
    ),
    mistake(
        "waves-in-halves",
        sinusoidal_encoding=lambda n, c: torch.cat(
            (_angles(n, c).sin(), _angles(n, c).cos()), -1
        ).float(),
    ),
    mistake(
        "positions-from-one",
        sinusoidal_encoding=lambda n, c: positions.sinusoidal_encoding(n + 1, c)[1:],
    ),
    mistake("dtype-changed/waves", stage="narrow", only=("sinusoidal_encoding",)),
    mistake(
        "positions-ignored",
        rope=[
            lambda x, at, base=1e4: positions.rope(x, range(x.size(2)), base),
            lambda x, at, base=1e4: positions.rope(x, range(1, x.size(2) + 1), base),
        ],
    ),
    mistake(
        "positions-from-one/rope",
        rope=lambda x, at, base=1e4: positions.rope(x, torch.as_tensor(at) + 1, base),
    ),
    mistake("positions-by-head", rope=_turned_by_head),
    mistake(
        "base-ignored",
        rope=[
            *(lambda x, at, base=1e4, own=own: positions.rope(x, at, own) for own in (1e4, 5e5)),
            *(lambda x, at, base=own: positions.rope(x, at, base) for own in (1e3, 1e5, 5e5, 1e6)),
        ],
    ),
    mistake(
        "frequency-precedence/rope",
        rope=[
            lambda x, at, base=1e4, power=power: positions.rope(x, at, base**power)
            for power in (0.5, 2)
        ],
    ),
    mistake("rope-wrong-sign", rope=_turned(sin=lambda t: -t.sin())),
    mistake(
        "rope-in-degrees",
        rope=[
            _turned(lambda t: t.rad2deg().cos(), lambda t: t.rad2deg().sin()),
            _turned(lambda t: t.deg2rad().cos(), lambda t: t.deg2rad().sin()),
        ],
    ),
    mistake("rope-missing-minus", rope=_turned(sign=1)),
    mistake("rope-interleaved", rope=positions.rope_interleaved),
    mistake(
        "/pairs-taken-apart",
        rope=lambda x, at, base=1e4: positions.rope(positions.to_half_split(x), at, base),
    ),
    mistake("/pairs-joined-as-neighbours", rope=_turned(layout="joined as neighbours")),
    mistake("/two-minuses", rope=_turned(layout="two minuses")),
    mistake("/first-overwritten", rope=_turned(layout="overwritten")),
    mistake("rope-layout-mixed", rope=_turned(layout="mixed")),
    mistake("rope-layout-mixed/neighbours", rope=_turned(layout="mixed neighbours")),
    mistake(
        "rope-values-not-angles",
        rope=[
            lambda x, at, base=1e4: (
                x + positions.sinusoidal_encoding(64, x.size(-1)).to(x)[torch.as_tensor(at)]
            ),
            lambda x, at, base=1e4: x + torch.as_tensor(at).to(x)[:, None],
        ],
    ),
]


def _drawn_rotation(d: Draw) -> tuple[Tensor, Tensor, float]:
    at = d.ids(50, "S")
    return d.normal(d.B, d.H, d.S, 2 * d.D), at, d.picks.uniform(100.0, 20000.0)


EXERCISES = [
    Exercise(
        positions.sinusoidal_encoding,
        "If a sine and a cosine share each frequency, how many frequencies do d_model channels "
        "have?",
        "First make a table of angles, positions by frequencies. Frequency i is 10000 to the "
        "power of -2i / d_model. Then fill every other channel: a slice can have a step.",
        "Positions (S, 1) times frequencies (C/2) are angles (S, C/2). Their sines and cosines "
        "alternate in the channels of (S, C).",
        line="rates = 10000.0 ** -(torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # "
        "(C/2)\n"
        "angles = torch.arange(seq_len)[:, None] * rates  # (S, C/2)\n"
        "encoding[:, 0::2], encoding[:, 1::2] = angles.sin(), angles.cos()",
        drawn=lambda d: (d.S, 2 * d.D),
        axes="S C",
        diagnose=_without_minus,
        done="You can write a position as waves of many lengths. Draw 100 positions of 64 channels "
        "with plt.imshow, and look for the slowest wave.",
    ),
    Exercise(
        positions.rope,
        "Two numbers are a point in a plane. What does a rotation do to them, and what decides "
        "its angle?",
        "Number i and number i + D/2 are a pair. Rotate each pair by its position times its "
        "frequency, base to the power of -2i / D. A rotation has two sines, two cosines and one "
        "minus.",
        "Angles are (S, D/2), positions by frequencies. The halves a and b of x are (B, H, S, "
        "D/2). Two mixtures of them, joined, are (B, H, S, D).",
        line="cos, sin = angles.cos(), angles.sin()  # (S, D/2)\n"
        "a, b = x.chunk(2, dim=-1)  # (B, H, S, D/2)\n"
        "return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)  # (B, H, S, D)",
        special_cases=[
            ("", lambda: (draw(B, H, S, D, seed=1), torch.arange(S) + 3)),
            (
                "Here base is 300, and the positions are in no order.",
                lambda: (draw(B, H, S, D, seed=1), torch.arange(S) * 5 % 11, 300.0),
            ),
        ],
        drawn=_drawn_rotation,
        axes="B H S D",
        diagnose=_turned_too_fast,
        done="You can rotate queries and keys by their positions. Add 100 to all positions: the "
        "scores of q and k stay the same.",
    ),
]

LESSON = Lesson(10, "Positions", EXERCISES)
