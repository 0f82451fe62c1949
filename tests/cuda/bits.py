"""Comparing bit patterns of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.lab.check.encoding import decode
from astra_tui.model.dtypes import DType


def one_nan(bits: Any, dtype: DType) -> Any:
    """Bit patterns with all ones for every NaN: which of them a conversion gives is no matter."""
    if not dtype.is_float:
        return bits
    return np.where(np.isnan(decode(bits, dtype)), np.iinfo(bits.dtype).max, bits)
