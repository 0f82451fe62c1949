"""Operators that a draft recognises: the reference it offers judges kernels on the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from astra_tui.drafting import Draft, draft_task
from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.oracle_worker import evaluate, load_reference
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.task import KernelTask, load_task

SOURCES = Path(__file__).parent / "operator_sources"
CASES = ("*=7", "*=100", "*/all shifted by 1", "*/tiny values", "*/zeros of both signs")


@dataclass(frozen=True)
class Kernel:
    """A source, what it has to be taken for, and a mistake: text that is replaced by other text."""

    source: str
    operator: str
    mistake: tuple[str, str]
    points: tuple[str, ...] = ()
    asked: str = ""
    """The open point of the mistaken source's draft, where the mistake shows in the reference."""


KERNELS = [
    Kernel("fused_add_rms_norm", "fused add and RMSNorm", ("/ d + kEps", "/ d"),
           ("eps is taken to be 1e-5",), "eps: the kernel takes none and shows none"),
    Kernel("gemma_norm", "gemma RMSNorm", ("(1.0f + gamma[i])", "gamma[i]")),
    Kernel("layer_norm", "LayerNorm", ("squares / C", "squares / (C - 1)"),
           ("eps is taken to be 1e-5",)),
    Kernel("rms_norm_int8", "RMSNorm and per-token quantisation", ("most / 127.0f", "most / 128.0f")),
    Kernel("silu_and_mul", "silu and mul",
           ("gate = row[i], up = row[d + i]", "gate = row[d + i], up = row[i]")),
    Kernel("bias_gelu", "bias and gelu", ("0.70710678f", "0.5f")),
    Kernel("rope", "rotary embedding, neox layout",
           ("x = head[i], y = head[half_dim + i];\n  head[i] = x * c - y * s;\n  head[half_dim + i]",
            "x = head[2 * i], y = head[2 * i + 1];\n  head[2 * i] = x * c - y * s;\n"
            "  head[2 * i + 1]"),
           ("layout: neox (i with i + half)", "positions: drawn from 0 to 63")),
    Kernel("group_quant", "group quantisation", ("most / 448.0f", "most / 240.0f")),
    Kernel("topk_softmax", "top-k of softmax", ("if (renormalize)\n", "if (!renormalize)\n"),
           ("topk_indices: role out, since the operator only writes it",)),
    Kernel("top_p_renorm", "top-p renormalisation", ("before < top_p", "before <= top_p / 2")),
    Kernel("cache_write", "cache write", ("key_cache[slot * width + i]", "key_cache[slot * width]"),
           ("slot_mapping: drawn so that all differ",)),
    Kernel("merge_states", "merge of two attention states, log2", ("log2f(", "logf("),
           ("base 2 of s_a and s_b: confirm",), "say which operator this is"),
    Kernel("moe_sum", "sum over experts", ("k < topk;", "k < topk - 1;")),
    Kernel("adamw", "AdamW", (" / beta2_correction;", ";")),
]  # fmt: skip


def text_of(name: str) -> str:
    """The text of a source."""
    return (SOURCES / f"{name}.cu").read_text()


def with_mistake(kernel: Kernel, text: str) -> str:
    """A source with its mistake."""
    old, new = kernel.mistake
    assert old in text
    return text.replace(old, new)


class OracleHere(Oracle):
    """The reference in this process, so that torch is imported once for all tasks."""

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"outputs": evaluate(load_reference(self.task.reference_file), message)}


def written(draft: Draft, folder: Path) -> KernelTask:
    """The task of a draft with few and small sizes."""
    folder.mkdir()
    for name, text in draft.files.items():
        if name == "task.toml":
            text = re.sub(r"sizes = .*", "", text)
            text = re.sub(r"typical = (?!128|64|16)\d+", "typical = 14", text)
        (folder / name).write_text(text)
    return load_task(folder)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.source)
def test_the_offered_reference_passes_the_kernel_and_fails_its_mistake(
    kernel: Kernel, compiler: Compiler, tmp_path: Path
) -> None:
    draft = draft_task(kernel.source, text_of(kernel.source), f"{kernel.source}.cu")
    points = " | ".join(draft.open_points)
    assert f"reference.py: looks like {kernel.operator} (named" in points
    assert "; confirm" in points
    assert [p for p in kernel.points if p not in points] == []
    task = written(draft, tmp_path / kernel.source)
    checker = Checker(task, Emulator(), compiler, OracleHere(task))
    passed, failed = (
        list(checker.check(text, "candidate.cu", select_cases(task, CASES)))[-1]
        for text in (draft.files["baseline.cu"], with_mistake(kernel, draft.files["baseline.cu"]))
    )
    assert isinstance(passed, CheckReport)
    assert isinstance(failed, CheckReport)
    assert passed.verdict is CheckVerdict.PASSED, passed.message
    assert len(passed.cases) >= 3
    assert failed.verdict is CheckVerdict.FAILED


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.source)
def test_a_mistake_does_not_move_the_reference_silently(kernel: Kernel) -> None:
    text = text_of(kernel.source)
    right, wrong = (draft_task("drafted", t, "a.cu") for t in (text, with_mistake(kernel, text)))
    assert (wrong.files["reference.py"] != right.files["reference.py"]) == bool(kernel.asked)
    assert any(kernel.asked in point for point in wrong.open_points)
