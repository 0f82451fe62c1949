"""Turns what a GPU run left into the files that the tests read.

    python -m tests.emulator.golden.collect RESULTS
    python -m tests.emulator.golden.collect RESULTS hopper

RESULTS holds outputs.npz of `run_on_gpu.py`, tasks.csv and patterns.csv of ncu, and gpu.csv of
nvidia-smi; of programs with clusters, hopper.csv and gpu.csv. See docs/emulator.md for the commands.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from astra_tui.lab.compiler import Compiler
from tests.emulator.golden import hopper_programs, patterns
from tests.emulator.golden.build import TASKS

HERE = Path(__file__).parent
KEPT_BYTES = 16_384
"""Of each output; the tasks' outputs are larger than a repository should carry."""

METRICS = {
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}


HOPPER_METRICS = {
    **METRICS,
    "bulk_load_requests": "sm__sass_inst_executed_op_tma_ld.sum",
    "bulk_store_requests": "sm__sass_inst_executed_op_tma_st.sum",
    "bulk_load_bytes": "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "bulk_store_bytes": "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    "cluster_loads": "l1tex__t_requests_pipe_lsu_mem_dshared_op_ld.sum",
    "cluster_stores": "l1tex__t_requests_pipe_lsu_mem_dshared_op_st.sum",
    "cluster_copies": "sm__sass_inst_executed_op_dshared_tma_st.sum",
    "cluster_atomics": "l1tex__t_requests_pipe_lsu_mem_dshared_op_atom.sum",
    "cluster_reductions": "l1tex__t_requests_pipe_lsu_mem_dshared_op_redas.sum",
}


def read_ncu(file: Path, metrics: Mapping[str, str] = METRICS) -> list[dict[str, int]]:
    """The counters of each launch in an ncu CSV (page raw: a header, units, then the launches)."""
    lines = [line for line in file.read_text().splitlines() if line.startswith('"')]
    header, _units, *rows = csv.reader(lines)
    return [
        {
            name: int(float(dict(zip(header, row, strict=True))[metric].replace(",", "")))
            for name, metric in metrics.items()
        }
        for row in rows
    ]


def collect(results: Path) -> None:
    """Writes h100.npz and h100.json next to this file."""
    with np.load(results / "outputs.npz") as outputs:
        kept = {key: outputs[key][:KEPT_BYTES] for key in outputs.files}
        np.savez_compressed(HERE / "h100.npz", **kept)
    names = [f"{task}/{source}" for task in TASKS for source in ("baseline.cu", "tuned.cu")]
    tasks = read_ncu(results / "tasks.csv")
    recorded: dict[str, Any] = {
        "environment": _environment(results),
        "tasks": dict(zip(names, tasks, strict=True)),
        "patterns": {
            p.name: counters
            for p, counters in zip(
                patterns.patterns(), read_ncu(results / "patterns.csv"), strict=True
            )
        },
    }
    (HERE / "h100.json").write_text(json.dumps(recorded, indent=1) + "\n")


def collect_hopper(results: Path) -> None:
    """Writes hopper.json next to this file."""
    counters = read_ncu(results / "hopper.csv", HOPPER_METRICS)
    recorded = {
        "environment": _environment(results),
        "programs": dict(zip(hopper_programs.programs(), counters, strict=True)),
    }
    (HERE / "hopper.json").write_text(json.dumps(recorded, indent=1) + "\n")


def _environment(results: Path) -> dict[str, str]:
    header, values = list(csv.reader((results / "gpu.csv").read_text().splitlines()))[:2]
    found = {k.strip(): v.strip() for k, v in zip(header, values, strict=True)}
    with Compiler() as compiler:
        found["cubins compiled by"] = compiler.identify()
    return found


if __name__ == "__main__":
    (collect_hopper if sys.argv[2:] == ["hopper"] else collect)(Path(sys.argv[1]))
