"""What is said about a fault."""

from __future__ import annotations

import msgspec
import pytest

from astra_tui.model.findings import EXPLANATIONS, WARNINGS, Finding, FindingKind

KIND = FindingKind.MISALIGNED


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding(KIND, "16 bytes at 4"), "misaligned: 16 bytes at 4"),
        (Finding(KIND, "x", line=12), "line 12: misaligned: x"),
        (
            Finding(KIND, "x", line=12, block=(1, 2, 3), thread=(4, 5, 6), lanes=1),
            "line 12: misaligned: x [block (1,2,3) thread (4,5,6)]",
        ),
        (
            Finding(KIND, "x", block=(0, 0, 0), thread=(31, 0, 0), lanes=32),
            "misaligned: x [block (0,0,0) thread (31,0,0), 32 threads]",
        ),
        (Finding(KIND, "x", block=(0, 0, 0)), "misaligned: x"),
        (Finding(KIND, "x", thread=(0, 0, 0)), "misaligned: x"),
        (Finding(KIND, "x", line=12, launch_line=7), "line 12: misaligned: x (launched at line 7)"),
        (Finding(KIND, "x", launch_line=7), "misaligned: x (launched at line 7)"),
        (Finding(KIND, "x", line=7, launch_line=7), "line 7: misaligned: x"),
        (
            Finding(KIND, "x", 12, (), "k", (1, 0, 0), (2, 0, 0), 3, "st", 7),
            "line 12: misaligned: x [block (1,0,0) thread (2,0,0), 3 threads] (launched at line 7)",
        ),
    ],
)
def test_a_finding_is_described_in_one_line(finding: Finding, text: str) -> None:
    assert finding.describe() == text


@pytest.mark.parametrize("kind", list(FindingKind))
def test_every_kind_is_explained(kind: FindingKind) -> None:
    assert EXPLANATIONS[kind]
    assert "\n" not in EXPLANATIONS[kind]


def test_only_explained_kinds_exist() -> None:
    assert set(EXPLANATIONS) == set(FindingKind)


@pytest.mark.parametrize("kind", list(FindingKind))
def test_warnings_do_not_fail_a_case(kind: FindingKind) -> None:
    assert Finding(kind, "x").is_warning == (kind in WARNINGS)


def test_findings_survive_json() -> None:
    finding = Finding(KIND, "x", 12, (3, 4), "k", (1, 0, 0), (2, 0, 0), 3, "st", 7)
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
