"""1,000 rounds of two equal fills on an H100 (record_memsets.py): real noise, not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_tui.gpu.timing.pairing import mirrored_log_ratios, paired_ratio
from astra_tui.gpu.timing.stopping import decide
from astra_tui.model.timing import TimingVerdict

RECORD = Path(__file__).parent / "recorded" / "h100_memsets.json"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return {k: np.array(v) if isinstance(v, list) else v for k, v in loaded.items()}


def test_events_tick_in_32_nanoseconds(record: dict[str, Any]) -> None:
    for name in ("empty_us", "base_us", "copy_us"):
        ticks = record[name] / 0.032
        assert ticks == pytest.approx(np.round(ticks), abs=0.04)


def test_equal_fills_are_never_told_apart(record: dict[str, Any]) -> None:
    """Ten measurements of 100 rounds; each holds what all 1,000 give, but for one of them.

    That is not 1: the two fills differ by 0.18 % in where their memory lies.
    """
    base, copy = record["base_us"], record["copy_us"]
    offset = float(np.median(record["empty_us"]))
    whole = paired_ratio(base, copy, offset)
    assert whole.value == pytest.approx(1, abs=0.003)
    parts = [
        paired_ratio(base[i : i + 100], copy[i : i + 100], offset) for i in range(0, 1000, 100)
    ]
    assert sum(part.low <= whole.value <= part.high for part in parts) >= 9
    assert not {decide(part, 0.003) for part in parts} & {
        TimingVerdict.FASTER,
        TimingVerdict.SLOWER,
    }
    assert max(part.half_width for part in parts) < 0.0025


def test_mirror_pairs_take_the_effect_of_position_out(record: dict[str, Any]) -> None:
    """The effect is there, and the mean of a mirror pair spreads less than chance alone allows."""
    logs = np.log(record["base_us"] / record["copy_us"])
    first = record["base_first"]
    position = (np.median(logs[first]) - np.median(logs[~first])) / 2
    assert abs(position) > 0.0003
    pairs = mirrored_log_ratios(record["base_us"], record["copy_us"])

    def spread(values: Any) -> float:
        return float(np.subtract(*np.quantile(values, [0.75, 0.25])))

    assert spread(pairs) < spread(logs) / np.sqrt(2)
