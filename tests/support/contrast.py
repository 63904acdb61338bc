"""Contrast of two colours as WCAG 2.2 defines it."""

import numpy as np
from matplotlib.colors import to_rgb

TEXT, MARK = 4.5, 3.0  # WCAG 1.4.3 and 1.4.11, level AA
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(color):
    values = np.array(to_rgb(color))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)
