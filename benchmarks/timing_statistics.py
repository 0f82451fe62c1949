"""Tries the statistics of paired timing on a simulated GPU whose true ratios are known.

    python benchmarks/timing_statistics.py [--trials N]

The simulation is that of the tests (tests/timing/synthetic.py); the statistics are the lab's own.
Writes results/timing_statistics.json, which docs/timing.md quotes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from environment import RESULTS, ROOT, describe

sys.path.insert(0, str(ROOT))

from astra_tui.gpu.timing import stopping
from astra_tui.gpu.timing.intervals import Floats, median_interval
from astra_tui.gpu.timing.overall import geometric_mean
from astra_tui.gpu.timing.pairing import mirrored_log_ratios
from tests.timing.synthetic import Machine, measure

SEED = 2026
LAUNCH_US = 3.0
NOISES = (0.0013, 0.0025, 0.0040, 0.0050, 0.0065)
"""Of one replay. The half widths at 100 rounds that they give are 0.05 to 0.25 %, as on an H100."""

MACHINES = {
    "quiet": Machine(),
    "drift 2 %": Machine(drift=0.02),
    "drift 20 %": Machine(drift=0.2),
    "first replay 0.1 % longer": Machine(first=0.001),
    "first replay 2 % longer": Machine(first=0.02),
    "5 % outliers": Machine(outliers=0.05),
    "rounds differ by 10 %": Machine(common=0.1),
    "events of 0.5 us": Machine(grid_us=0.5),
    "correlation 0.3": Machine(correlation=0.3),
    "correlation 0.6": Machine(correlation=0.6),
    "correlation 0.9": Machine(correlation=0.9),
}


def percent(fraction: float, digits: int = 3) -> float:
    """A fraction as a rounded percentage."""
    return round(100 * float(fraction), digits)


def interval_figures(logs: Floats, truth: float) -> dict[str, float]:
    """Bias, spread, half width and coverage of intervals, in percent; one measurement a row."""
    median, low, high = median_interval(logs)
    return {
        "bias": percent(np.mean(median) - truth, 4),
        "half_width": percent(np.mean(high - low) / 2),
        "coverage": percent(np.mean((low <= truth) & (truth <= high)), 1),
    }


def intervals(trials: int) -> dict[str, Any]:
    """The interval of a ratio of 1.25 after 100 rounds, by mirror pairs and by single rounds."""
    truth = math.log(1.25)
    table = {}
    for name, machine in MACHINES.items():
        random = np.random.default_rng(SEED)
        double = machine.replay(random, [LAUNCH_US, LAUNCH_US / 1.25], trials, 100).double
        over = double - machine.offset_us
        table[name] = {
            "mirror_pairs": interval_figures(
                mirrored_log_ratios(double[..., 0], double[..., 1], machine.offset_us), truth
            ),
            "single_rounds": interval_figures(np.log(over[..., 0] / over[..., 1]), truth),
        }
    return table


def verdicts(
    machine: Machine, slower: float, trials: int, limit: int = stopping.ROUND_LIMIT
) -> dict[str, Any]:
    """Whole measurements, with extension, of a candidate that takes (1 + slower) times as long."""
    random = np.random.default_rng(SEED)
    launch_us = [LAUNCH_US, LAUNCH_US, LAUNCH_US * (1 + slower)]
    replays = machine.replay(random, launch_us, trials, limit)
    done = [measure(replays, trial, limit) for trial in range(trials)]
    counts = Counter(said.verdict.value for _, said in done)
    rounds = [r for r, _ in done]
    caveats = Counter(caveat.kind for _, said in done for caveat in said.caveats)
    return {
        **{f"{word.value}_percent": percent(counts[word] / trials, 2) for word in VERDICTS},
        "rounds_median": int(np.median(rounds)),
        "rounds_mean": round(float(np.mean(rounds)), 1),
        "threshold_median_percent": percent(np.median([s.threshold for _, s in done])),
        "caveats_percent": {kind: percent(n / trials, 2) for kind, n in sorted(caveats.items())},
    }


VERDICTS = tuple(stopping.TimingVerdict)


def half_width_after_100(noise: float, trials: int) -> float:
    """Of the base against itself, in percent."""
    random = np.random.default_rng(SEED)
    double = Machine(noise=noise).replay(random, [LAUNCH_US] * 2, trials, 100).double
    _, low, high = median_interval(mirrored_log_ratios(double[..., 0], double[..., 1]))
    return percent(np.mean(high - low) / 2)


def power(trials: int) -> list[dict[str, Any]]:
    """Verdicts by noise and planted difference; 0 is the base against itself."""
    return [
        {
            "noise_percent": percent(noise),
            "half_width_after_100_rounds": half_width_after_100(noise, trials),
            "slower_percent_planted": percent(slower),
            **verdicts(Machine(noise=noise), slower, trials),
        }
        for noise in NOISES
        for slower in (0.0, 0.003, 0.004, 0.005, 0.01, 0.03)
    ]


@contextmanager
def stretched(factor: float) -> Iterator[None]:
    """With another stretch of the intervals that end a measurement early."""
    usual, stopping.STRETCH = stopping.STRETCH, factor
    try:
        yield
    finally:
        stopping.STRETCH = usual


def looks(trials: int) -> dict[str, Any]:
    """A difference of exactly the threshold, where every decision is an error, by the stretch."""
    table = {}
    for factor in (1.0, stopping.STRETCH, 2.0):
        with stretched(factor):
            table[f"stretch {factor}"] = verdicts(Machine(noise=NOISES[0]), 0.003, trials)
    return table


def geometric(trials: int) -> dict[str, Any]:
    """Coverage of the geometric mean's interval over 1, 4 and 18 workloads of 100 rounds."""
    table = {}
    for count in (1, 4, 18):
        truth = np.log(np.linspace(0.9, 1.3, count))
        random = np.random.default_rng(SEED)
        hits, widths = 0, []
        for trial in range(trials):
            rounds = random.normal(truth[:, None], 0.003, (count, 50))
            mean = geometric_mean(list(rounds), seed=trial, resamples=1000)
            hits += math.log(mean.low) <= truth.mean() <= math.log(mean.high)
            widths.append(mean.half_width)
        table[f"{count} workloads"] = {
            "coverage": percent(hits / trials, 1),
            "half_width": percent(np.mean(widths)),
        }
    return table


def main() -> None:
    """Prints every table as it is done and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    begin = time.perf_counter()
    result: dict[str, Any] = {"environment": describe(), "trials": trials, "seed": SEED}
    tables = {
        "interval_of_100_rounds": lambda: intervals(trials),
        "verdicts_by_noise": lambda: power(trials),
        "beside_itself_on": lambda: {
            name: verdicts(machine, 0.0, trials) for name, machine in MACHINES.items()
        },
        "looks_at_the_threshold": lambda: looks(trials),
        "half_a_percent_with_800_rounds": lambda: verdicts(
            Machine(noise=NOISES[-1]), 0.005, trials, limit=800
        ),
        "geometric_mean": lambda: geometric(trials),
    }
    for name, table in tables.items():
        result[name] = table()
        print(name, json.dumps(result[name], indent=1), flush=True)
    result["seconds"] = round(time.perf_counter() - begin, 1)
    (RESULTS / "timing_statistics.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
