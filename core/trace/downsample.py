"""Fewer points for a line on a screen, with its peaks kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tsdownsample import M4Downsampler

MOST_POINTS = 2_000


def keep(values: NDArray[np.float64], most: int = MOST_POINTS) -> NDArray[np.intp]:
    """Indices of at most about `most` points that draw the same line.

    M4 keeps the first, last, lowest and highest value of each bucket (Jugel et al., VLDB 2014), so no peak is lost. A
    gap (NaN) is kept as one point, and the points on both sides of it.
    """
    if len(values) <= most:
        return np.arange(len(values))
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.array([0])
    chosen = known[M4Downsampler().downsample(np.ascontiguousarray(values[known]), n_out=most // 4 * 4)]
    # the first NaN after each known value marks a gap; without it the line would be drawn across
    gaps = known[:-1][np.diff(known) > 1] + 1
    return np.unique(np.concatenate([chosen, gaps[: most // 4]])).astype(np.intp)
