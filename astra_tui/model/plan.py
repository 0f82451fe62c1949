"""What a round proposes to change, with the effect it predicts.

Source of the idea: Astra's planning agent (arXiv 2509.07506, section 4). A plan here is data, so
that an engineer can edit it before it costs anything, and so that its prediction can be scored
against what is measured afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError, nearest, value_words


class Risk(StrEnum):
    """How likely a change is to break the kernel, as its author sees it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """0 for low, 2 for high."""
        return list(Risk).index(self)


class Counter(StrEnum):
    """Counters that a plan may expect to move; less is better for each of them."""

    SECTORS = "sectors"
    REQUESTS = "requests"
    WARP_INSTRUCTIONS = "warp_instructions"
    SHARED_REQUESTS = "shared_requests"
    BANK_CONFLICTS = "bank_conflicts"
    BARRIERS = "barriers"


MERGE_MOVE = "merge"
"""The playbook's move that takes over another branch."""


class Prediction(msgspec.Struct, frozen=True):
    """What the author of a plan expects of it.

    `speedup_low` and `speedup_high` bound the ratio of old time to new time (1.0: as fast as
    before); both are None where the device gives no times. `counter_ratio` is the expected new
    value over the old one of `counter`; below 1 is better.
    """

    speedup_low: float | None
    speedup_high: float | None
    counter: Counter
    counter_ratio: float

    @property
    def speedup(self) -> tuple[float, float] | None:
        """The bounds of the speedup; None where none is predicted."""
        if self.speedup_low is None or self.speedup_high is None:
            return None
        return self.speedup_low, self.speedup_high

    def require_possible(self) -> None:
        """Raises UserError for numbers that no measurement can give."""
        low, high = self.speedup or (0.0, 0.0)
        if not all(0 <= number < math.inf for number in (low, high, self.counter_ratio)):
            raise UserError("the prediction: a ratio is a number of 0 or more")
        if low > high:
            raise UserError("the prediction: speedup_low is above speedup_high")


class CodePlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines of the source that a plan is about, counted from 1, both ends included.

    `file` is an upstream file that the source includes, as counters name it, if they are there.
    """

    first: int
    last: int
    file: str = ""

    def describe(self) -> str:
        """As in "7", "7 to 9" or "7 to 9 of upstream/a.cuh"."""
        lines = str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
        return f"{lines} of {self.file}" if self.file else lines


def places_words(places: tuple[CodePlace, ...]) -> str:
    """As in "line 7", "lines 7 to 9" or "lines 7 and 12"."""
    parts = [p.describe() for p in places]
    line = "line" if len(parts) == 1 and places[0].first == places[0].last else "lines"
    return f"{line} {' and '.join([', '.join(parts[:-1]), parts[-1]] if parts[1:] else parts)}"


class Citation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number that a sentence quotes of what was measured of the source that the plan starts from.

    `metric` names it; citations.py says which metrics there are and looks them up. An author may
    name one that does not exist, or quote it wrongly: that is shown, and not refused.
    """

    metric: str
    value: float
    of: str = ""
    """The workload or kernel that it is of; empty: all workloads together, or any kernel."""
    lines: tuple[CodePlace, ...] = ()
    """The source lines that it is counted at; empty: the whole source."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence that speaks for a change, and the numbers that it quotes."""

    sentence: str
    cites: tuple[Citation, ...] = ()


class Measurement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the profiling agent had measured: by which tool, and of what.

    `answer` is what it was told; in the journal the hash of that text.
    """

    tool: str
    subject: str
    answer: str

    def describe(self) -> str:
        """As in "compare base with r2.1 on 16x4096"."""
        return f"{self.tool} {self.subject}".strip()


class Selection(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the profiling agent chose, of all that was measured of a source, for the next plan.

    All that it names exists, and the numbers that its evidence cites are the measured ones.
    """

    round: int
    workload: str = ""
    """The one that decides; empty: all alike."""
    places: tuple[CodePlace, ...] = ()
    """The lines that cost it."""
    evidence: tuple[Observation, ...] = ()
    measured: tuple[Measurement, ...] = ()


Choice = int | str


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing about a change that can be set, such as the bytes of a pack.

    The code follows `value`: one of `choices`, or several of them, at least one, where it is a
    tuple, as for the lines that are changed.
    """

    name: str
    meaning: str
    value: Choice | tuple[Choice, ...]
    choices: tuple[Choice, ...]

    @property
    def chosen(self) -> tuple[Choice, ...]:
        """The value, or the values where there are several."""
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def describe(self) -> str:
        """As in "pack_bytes = 16 (16, 8 or 4): bytes that a thread moves at once"."""
        value = ", ".join(map(str, self.chosen))
        if self.value == self.choices:
            return f"{self.name} = {value} (all, or some of them): {self.meaning}"
        *others, last = map(str, self.choices)
        return f"{self.name} = {value} ({', '.join(others)} or {last}): {self.meaning}"

    def having(self, value: Any) -> Parameter:
        """The parameter with another value. Raises UserError for one that is no choice."""
        several = isinstance(self.value, tuple)
        given = tuple(value) if isinstance(value, list | tuple) else (value,)
        wrong = next((v for v in given if v not in self.choices or isinstance(v, bool)), None)
        listed = ", ".join(map(str, self.choices))
        if wrong is not None:
            raise UserError(f"{self.name}: {wrong} is not one of {listed}")
        if several and not given:
            raise UserError(f"{self.name}: at least one of {listed} is needed")
        if not several and len(given) != 1:
            raise UserError(f"{self.name}: one of {listed} is needed")
        chosen = tuple(c for c in self.choices if c in given)
        return replace(self, value=chosen if several else chosen[0])


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change to one kernel source.

    `evidence` is what speaks for the change; a sentence that cites nothing is a plain string.
    `move` is the playbook move that will do it; empty where the coding agent writes the code.
    `parameters` are what can be set of that move.
    """

    title: str
    bottleneck: str
    evidence: tuple[str | Observation, ...]
    change: str
    prediction: Prediction
    risk: Risk
    places: tuple[CodePlace, ...] = ()
    move: str = ""
    parameters: tuple[Parameter, ...] = ()

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The evidence, plain sentences as well."""
        return tuple(e if isinstance(e, Observation) else Observation(e) for e in self.evidence)

    def for_device(self, timed: bool) -> Plan:
        """The same without a predicted speedup where the device gives no times."""
        if timed:
            return self
        expected = replace(self.prediction, speedup_low=None, speedup_high=None)
        return replace(self, prediction=expected)

    @property
    def hash(self) -> str:
        """Identifies the plan that was shown; a decision names it."""
        return content_hash(msgspec.json.encode(self))

    @property
    def settings(self) -> dict[str, Choice | tuple[Choice, ...]]:
        """The values of the parameters, by name."""
        return {p.name: p.value for p in self.parameters}

    def having(self, settings: Mapping[str, Any]) -> Plan:
        """The plan with other values of some parameters.

        Raises UserError for a name that is no parameter and a value that is no choice.
        """
        known = [p.name for p in self.parameters]
        for name in settings:
            if name not in known:
                hint = nearest(name, known) if known else "this plan has no parameters"
                raise UserError(f"the plan has no parameter '{name}'", hint=hint)
        changed = (p.having(settings[p.name]) if p.name in settings else p for p in self.parameters)
        return replace(self, parameters=tuple(changed))


def editable_text(plan: Plan) -> str:
    """A plan as JSON that an engineer can edit; `read_edited_plan` reads it."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()


def read_edited_plan(before: Plan, text: str) -> Plan:
    """The plan that a JSON text makes of the one before. Raises UserError that names the field."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UserError(f"the edited plan cannot be read: {value_words(error)}") from None
    return edited_plan(before, fields)


def edited_plan(before: Plan, fields: Mapping[str, Any]) -> Plan:
    """The plan with some of its fields replaced, as JSON or TOML gives them.

    `parameters` may be a table from names to values, and `prediction` name what changes in it.
    Raises UserError that names the field.
    """
    _require_known(fields, Plan, "")
    others = dict(fields)
    expected = others.get("prediction")
    if isinstance(expected, Mapping):
        _require_known(expected, Prediction, "prediction.")
        others["prediction"] = {**msgspec.to_builtins(before.prediction), **expected}
    settings = others.get("parameters")
    if isinstance(settings, Mapping):
        before = before.having(settings)
        del others["parameters"]
    try:
        plan = msgspec.convert({**msgspec.to_builtins(before), **others}, Plan)
    except msgspec.ValidationError as error:
        raise UserError(f"the edited plan: {value_words(error)}") from None
    plan.prediction.require_possible()
    return plan


def _require_known(fields: Mapping[str, Any], kind: type[msgspec.Struct], of: str) -> None:
    for name in fields:
        if name not in kind.__struct_fields__:
            hint = nearest(name, kind.__struct_fields__)
            raise UserError(f"unknown key '{of}{name}' in the edited plan", hint=hint)


def unedited_words(shown: Plan, decided: Plan) -> str:
    """What a plan still says of its change after an edit: its sentences that are no engineer's."""
    before = _said_by(shown)
    return " ".join(s for s in _sentences(decided.change) if _bare(s) in before)


def edited_words(shown: Plan, edited: Plan) -> str:
    """The sentences of an edited plan that the shown one did not have, and its new settings."""
    before = _said_by(shown)
    said = [s for s in _sentences(f"{edited.title}. {edited.change}") if _bare(s) not in before]
    settings = shown.settings
    said += [p.describe() for p in edited.parameters if settings.get(p.name) != p.value]
    return " ".join(said)


def _said_by(plan: Plan) -> frozenset[str]:
    return frozenset(map(_bare, _sentences(f"{plan.title}. {plan.change}")))


def _bare(sentence: str) -> str:
    """A sentence without what ends it: one that another follows now has not changed."""
    return " ".join(sentence.rstrip(" .;!?").split())


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.;!?])\s+|\n+", text) if part.strip()]
