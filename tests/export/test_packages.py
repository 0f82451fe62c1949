"""The PyTorch packages in a process that has no astra_tui, on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_tui.export import Format, Subject, export_files
from tests.conftest import MadeOnce
from tests.export.sessions import write_files


@pytest.fixture(scope="module")
def found(subjects: dict[str, Subject], made_once: MadeOnce) -> dict[str, Any]:
    """What the packages did; the process starts in another folder, without this one's modules."""
    folder = made_once("used-packages", lambda f: use_packages(f, subjects))
    found: dict[str, Any] = json.loads((folder / "answer.json").read_bytes())
    return found


def use_packages(folder: Path, subjects: dict[str, Subject]) -> None:
    """Writes the packages into a folder, and what they did into its `answer.json`."""
    for subject in subjects.values():
        write_files(folder, export_files(subject, Format.TORCH))
    script = Path(__file__).with_name("use_packages.py")
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(folder)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "answer.json").write_text(done.stdout.splitlines()[-1], encoding="utf-8")


def test_without_a_fallback_the_reason_is_said(found: dict[str, Any]) -> None:
    assert found["no fallback"] == (
        "silu_and_mul: the tensors are on cpu, not on a GPU; set_fallback() of astra_silu_and_mul "
        "names a function for such calls"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("new", "into", "into, equal", "never an alias", "never an alias of each other"),
        "loaded again",
        *("compiled, dynamic=False", "compiled, dynamic=True", "compiled, derivative"),
    ],
)
def test_the_operators(found: dict[str, Any], name: str) -> None:
    assert found[name] is True


def test_nothing_of_this_program_is_needed(found: dict[str, Any]) -> None:
    assert found["astra_tui"] == []


@pytest.mark.parametrize("name", ["fits", "rows apart", "one row of a wide tensor", "empty"])
def test_calls_within_the_contract(found: dict[str, Any], name: str) -> None:
    assert found["reasons"][name] == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("transposed", "x has strides (1, 7); only its rows may lie apart"),
        ("strided input", "input is not contiguous"),
        ("type", "T is float64; it can be float16, bfloat16"),
        ("mixed types", "input is torch.float16; it should be torch.bfloat16"),
        ("shape", "input has the shape (7, 64); it should be (7, 62)"),
        ("rank", "a tensor has too few axes"),
        ("overlap", "x and residual share memory"),
        ("contract", "the contract asks for head_dim * sizeof(T) % 16 == 0; here "),
    ],
)
def test_calls_outside_of_it(found: dict[str, Any], name: str, reason: str) -> None:
    assert found["reasons"][name].startswith(reason)
