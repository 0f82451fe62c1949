"""The tone of every outcome, verdict and status: one table for the screen, lines and reports."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.findings import SanitizerVerdict


class Tone(StrEnum):
    """What a piece of text means. Each renderer has a colour for it; the words say it as well."""

    PLAIN = "plain"
    TITLE = "title"
    DIM = "dim"
    GOOD = "good"
    BAD = "bad"
    CAUTION = "caution"
    """In doubt: neither good nor bad news, or good news against which something speaks."""
    ACCENT = "accent"


class Phrase(msgspec.Struct, frozen=True, tag_field="kind", tag="phrase"):
    """Words and their tone, as of an outcome; those that matter have that of titles."""

    text: str
    tone: Tone = Tone.PLAIN


_SIGNS = {Tone.GOOD: "▲", Tone.BAD: "▼", Tone.CAUTION: "◆"}

_WORDS = {
    Tone.GOOD: (
        "better", "faster", "passed", "accepted", "edited", "clean", "agrees", "refused", "ok",
    ),
    Tone.PLAIN: ("same", "pending"),
    Tone.DIM: ("rejected", "cancelled"),
    Tone.CAUTION: (
        "inconclusive", "unsupported", "not_checked", "unavailable", "missing", "differs",
    ),
    Tone.BAD: (
        "worse", "slower", "wrong", "fault", "wrongly_refused", "failed", "found", "broken",
        "compile_error", "not_compiled", "plan_error", "not_written",
    ),
}  # fmt: skip
_TONES = {word: tone for tone, words in _WORDS.items() for word in words}


def tone_of(said: StrEnum) -> Tone:
    """The tone of an outcome, a verdict or a status, by its word and whatever it is about."""
    if said is SanitizerVerdict.FAILED:  # The tool has no result, neither good nor bad.
        return Tone.CAUTION
    return _TONES[said.value]


def words_of(said: StrEnum) -> str:
    """An outcome, a verdict or a status in words, as in "not compiled"."""
    return said.value.replace("_", " ")


def phrase_of(said: StrEnum) -> Phrase:
    """The same with its tone."""
    return Phrase(words_of(said), tone_of(said))


def sign_of(tone: Tone) -> str:
    """What says the tone of an outcome without colour."""
    return _SIGNS.get(tone, "■")
