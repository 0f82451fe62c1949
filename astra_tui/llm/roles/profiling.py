"""The profiling agent: measures what is missing, and selects what shows the bottleneck.

Agents comment on numbers and never produce them: what it cites is looked up, and in its sentences
numbers that were not measured are struck out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from astra_tui.llm.asking.asker import NO_ADVICE, Asker, Step
from astra_tui.llm.asking.evidence import CitedSentence, LineRange, cited, places_of
from astra_tui.llm.asking.facts import (
    device_text,
    goal_text,
    included_text,
    measured_base,
    measured_text,
    said_text,
    task_text,
)
from astra_tui.llm.asking.prompts import Data, compose, in_words, numbered, prompt_text
from astra_tui.llm.asking.toolbox import Toolbox, open_toolbox, tools_text
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.plan import Measurement, Observation, Selection
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import Brief, OnText, Reading

MAX_WORDS = 160


class ProfilingAnswer(msgspec.Struct, frozen=True):
    """What limits a source, and what of all that was measured shows it."""

    bottleneck: Annotated[str, Meta(description=f"at most {MAX_WORDS} words")]
    workload: Annotated[str, Meta(description="the workload that decides; empty: all alike")]
    lines: Annotated[
        tuple[LineRange, ...], Meta(max_length=8, description="the lines that cause it")
    ]
    evidence: Annotated[
        tuple[str | CitedSentence, ...],
        Meta(max_length=6, description="measured numbers of base that show it, one a sentence"),
    ]
    measured: Annotated[
        tuple[str, ...],
        Meta(max_length=4, description="of what tools measured, what decides, such as m2"),
    ]


async def read_profile(asker: Asker, brief: Brief, on_text: OnText) -> Reading | None:
    """The bottleneck and what shows it; None without a profile, or where the model gave no answer
    that can be used.
    """
    if brief.profile is None:
        return None
    box = open_toolbox(brief, Role.PROFILING)
    step = Step(Role.PROFILING, "read profile", profiling_prompt(brief, box))
    measured = box.measured if box is not None else {}

    def check(answer: ProfilingAnswer) -> None:
        check_selection(answer, brief, measured)

    try:
        answer = await asker.ask(step, ProfilingAnswer, on_text, box, check)
    except NO_ADVICE:
        return None
    told = box.transcript() if box is not None else ""
    known = f"{device_text(brief)}\n{measured_text(brief)}\n{told}"
    evidence = (cited(said) for said in answer.evidence)
    observations = (e if isinstance(e, Observation) else Observation(e) for e in evidence)
    selection = Selection(
        brief.round,
        answer.workload,
        places_of(answer.lines, brief.source),
        tuple(replace(o, sentence=strike_numbers(o.sentence, known)) for o in observations),
        tuple(measured[name] for name in dict.fromkeys(answer.measured)),
    )
    return Reading(strike_numbers(in_words(answer.bottleneck, MAX_WORDS), known), selection)


def check_selection(
    answer: ProfilingAnswer, brief: Brief, measured: Mapping[str, Measurement]
) -> None:
    """Raises UserError for a selection that names what does not exist, or a number that was not
    measured.
    """
    assert brief.profile is not None
    workloads = [w.workload for w in brief.profile.workloads]
    if answer.workload and answer.workload not in workloads:
        hint = nearest(answer.workload, workloads)
        raise UserError(f"there is no workload '{answer.workload}'", hint=hint)
    last = brief.source.removesuffix("\n").count("\n") + 1
    for lines in answer.lines:
        if max(lines.first, lines.last) > last:
            raise UserError(f"the source has no line {max(lines.first, lines.last)}, only {last}")
    for name in answer.measured:
        if name not in measured:
            hint = nearest(name, measured) if measured else "nothing was measured in this turn"
            raise UserError(f"there is no measurement '{name}'", hint=hint)
    for said in map(cited, answer.evidence):
        found = check_citations(said, measured_base(brief)) if not isinstance(said, str) else ()
        for reading in found:
            if reading.standing is not CitationStatus.AGREES:
                raise UserError(reading.describe())


def profiling_prompt(brief: Brief, box: Toolbox | None = None) -> str:
    """The prompt for a reading of the profile."""
    return compose(
        "profile",
        {
            "round": str(brief.round),
            "words": str(MAX_WORDS),
            "counts_legend": prompt_text("counts_legend"),
            "goal": goal_text(brief),
            "included": included_text(brief),
            "measuring": tools_text(box),
        },
        {
            "task": Data("task", task_text(brief.task)),
            "source": Data("kernel source", numbered(brief.source)),
            "device": Data("device", device_text(brief)),
            "said": Data("words of the engineer", said_text(brief)),
            "profile": Data("profile", measured_text(brief)),
        },
    )


REMOVED = "[number removed]"

_SIGN_NUMBERS = (
    "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u218b\u2460-\u249b"
)
_TOKEN = re.compile(
    rf"(?P<times>[xX](?P<factor>\d+(?:\.\d+)?))"
    rf"|(?P<word>[^\W\d{_SIGN_NUMBERS}][^\W{_SIGN_NUMBERS}]*)"
    rf"|(?P<number>0[xX][0-9a-fA-F]+|\d+(?:[,_']\d{{3}})+(?:\.\d+)?|\d*\.?\d+(?:[eE][+-]?\d+)?)"
    rf"|(?P<sign>[{_SIGN_NUMBERS}]+)"
)


def strike_numbers(text: str, data: str) -> str:
    """The text with `REMOVED` in place of every number that is not in `data`.

    Numbers are compared by value, so that 4,096 is 4096. Names such as `float16` or `L2` are no
    numbers; numbers written as words are not found.
    """
    known = {_value(m["number"]) for m in _TOKEN.finditer(data) if m["number"]}

    def judged(match: re.Match[str]) -> str:
        if match["word"]:
            return match[0]
        number = match["number"] or match["factor"]
        if number and _value(number) in known:
            return match[0]
        return REMOVED

    return _TOKEN.sub(judged, text)


def _value(number: str) -> float:
    plain = re.sub(r"[,_']", "", number)
    if plain[:2].lower() == "0x":
        return float(int(plain, 16))
    return float(plain)
