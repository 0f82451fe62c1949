"""What a run was asked to do, in rows of names and values."""

from __future__ import annotations

from collections.abc import Iterator

from astra_tui.model.roles import Role
from astra_tui.model.settings import ModelSettings, RunSettings, WireChoice
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, percent


def settings_rows(settings: RunSettings, rounds: int) -> Iterator[tuple[str, doc.Cell]]:
    """Who works and how; `rounds` is the limit that holds now. What no one chose has no row."""
    yield "team", settings.team.value
    yield "search", settings.search.value
    if settings.model:
        yield "model", (settings.model, f" at {settings.base_url}" if settings.base_url else "")
    general = ModelSettings(
        "", settings.effort, settings.output_tokens, settings.temperature, settings.wire,
        settings.silence_seconds, settings.call_seconds,
    )  # fmt: skip
    if asked := model_words(general):
        yield "every agent", asked
    for role in Role:
        if role in settings.roles:
            yield f"{role.value} agent", model_words(settings.roles[role])
    approval = settings.approval
    by = approval.decisions or f"plans {approval.plan.value}, diffs {approval.diff.value}"
    yield "approval", by
    yield "rounds at most", str(rounds or settings.rounds)
    yield "plans a round", settings.candidates
    if settings.sweep:
        yield "swept of each candidate", f"{percent(settings.sweep)} of its trials"
    budget = settings.budget
    spent = (
        (budget.tokens, "tokens"), (budget.dollars, "dollars"), (budget.calls, "calls"),
        (budget.gpu_seconds, "seconds of measuring"),
    )  # fmt: skip
    bounds = [f"{bound:,g} {what}" for bound, what in spent if bound is not None]
    if bounds:
        yield "budget", ", ".join(bounds)


def model_words(asked: ModelSettings) -> str:
    """How a model is asked, as in "effort low, at most 2,000 tokens an answer"."""
    told = [
        asked.model,
        f"effort {asked.effort}" if asked.effort else "",
        "" if asked.output_tokens is None else f"at most {count(asked.output_tokens)} tokens",
        "" if asked.temperature is None else f"temperature {asked.temperature:g}",
        "" if asked.wire is WireChoice.AUTO else f"{asked.wire.value} wire",
        "" if asked.silence_seconds is None else f"silent {asked.silence_seconds:g} s at most",
        "" if asked.call_seconds is None else f"{asked.call_seconds:g} s a call",
    ]
    return ", ".join(filter(None, told))
