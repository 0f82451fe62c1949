"""Answers of commands: one document each, which says the same however it is rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from astra_tui.model.check import CaseOutcome, CaseResult, CheckVerdict
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.drafts import OpenPoint
from astra_tui.model.environment import Health, Probe
from astra_tui.model.export import ExportReport, ExportStep, Format, StepOutcome
from astra_tui.model.fold import fold
from astra_tui.model.verification import CandidateVerification, CounterPair, TimingPair
from astra_tui.plain.console import text_lines
from astra_tui.present.checks import diagnostics_blocks, failures_blocks, sanitizer_blocks
from astra_tui.present.document import Block, Document, Listing, as_json, table
from astra_tui.present.files import as_html, as_markdown
from astra_tui.present.outcomes import doctor_blocks, export_blocks, verification_blocks
from astra_tui.present.plans import plan_entry
from astra_tui.present.sessions import result_blocks
from astra_tui.present.tasks import draft_blocks, kernels_blocks
from astra_tui.present.tones import Phrase
from tests.sessions.samples import BETTER, CASE, sanitized, timing, whole_session

VERIFIED = CandidateVerification(
    candidate=BETTER,
    round=1,
    recorded=CheckVerdict.PASSED,
    measured=CheckVerdict.FAILED,
    cases=206,
    worst_recorded=0.48,
    worst_measured=3.1,
    counters=(CounterPair("requests", 39528, 4941),),
    timings=(TimingPair("b" * 64, timing(), None, 0.0, ""),),
    problems=("its check failed",),
)
STATE = fold(whole_session())
ANSWERS: dict[str, list[Block]] = {
    "run": result_blocks(STATE, Path("sessions/sample")),
    "check": [
        *failures_blocks(
            [CaseResult(CASE, CaseOutcome.FAULT, "it faulted")], (), "astra-tui check"
        ),
        *diagnostics_blocks([Diagnostic(Severity.ERROR, "no such name", 7, 3, "  flaot x;")]),
        *sanitizer_blocks(sanitized()),
    ],
    "doctor": doctor_blocks(
        [
            Probe("system", Health.OK, "Linux", "running"),
            Probe("GPU", Health.MISSING, "no driver", "timing kernels", "a GPU", needed=False),
        ]
    ),
    "export": export_blocks(
        ExportReport(
            Format.CU,
            "sample",
            "silu_and_mul",
            BETTER,
            "out",
            ("silu.cu",),
            (ExportStep("kernels", StepOutcome.PASSED, "272 cases passed"),),
        )
    ),
    "verify": verification_blocks(VERIFIED),
    "new": draft_blocks(
        Path("mine"), ("task.toml", "upstream/a.cuh"), ("from a.cu",), (OpenPoint("shape?"),), ()
    ),
    "kernels of a source": kernels_blocks({"a.cu": [(14, "silu"), (31, "gelu")]}),
    "plan": [plan_entry(STATE, STATE.rounds[-1], STATE.rounds[-1].proposals[0])],
    "listing": [Listing(" req  line", (Phrase(" 12   float x = a < b;"),))],
}


def texts_of(data: Any) -> Iterator[str]:
    """All texts of a document in JSON."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from texts_of(part)


@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_says_the_same_in_lines_html_markdown_and_json(command: str) -> None:
    blocks = ANSWERS[command]
    document = Document("title", "subtitle", tuple(blocks), ())
    page = unescape(re.sub(r"<[^>]*>", " ", as_html(document).partition("<body>")[2]))
    data = " ".join(texts_of(json.loads(as_json(document))))
    texts = (page, as_markdown(document).replace("\\", ""), data)
    said = {word for line in text_lines(blocks) for word in re.findall(r"[\w.]+", line)}
    assert len(said) >= 5
    for text in texts:
        assert said <= set(re.findall(r"[\w.]+", text))


def test_a_disagreement_is_said_with_what_was_recorded() -> None:
    told = "\n".join(text_lines(verification_blocks(VERIFIED)))
    assert "check: failed (recorded: passed), 206 cases" in told
    assert re.search(r"requests +4,941 +39,528", told)
    assert "not timed here" in told
    assert "disagrees: its check failed" in told
    assert "agrees in what was compared" not in told
    agreeing = replace(VERIFIED, problems=())
    assert "agrees in what was compared" in "\n".join(text_lines(verification_blocks(agreeing)))


def test_columns_of_numbers_are_known_by_their_cells() -> None:
    made = table(("name", "count", "mostly", "words"), [("a", 1, 2, "x"), ("b", None, 3, 4)])
    assert made.numeric == {1, 2}
    assert made.with_columns([0, 2]).numeric == {1}
    assert table(("a", "b"), [("", None)]).without_empty_columns().columns == ()
