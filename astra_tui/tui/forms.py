"""Plans and runs as the fields of a form, and back again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from astra_tui.model.check import Case
from astra_tui.model.dtypes import FLOATS, DType
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.plan import Choice, Counter, Observation, Parameter, Plan, Prediction, Risk
from astra_tui.model.roles import Role
from astra_tui.model.settings import (
    Approval,
    GatePolicy,
    ModelSettings,
    RunSettings,
    SearchKind,
    TeamKind,
    WireChoice,
)
from astra_tui.model.task_folders import list_tasks
from astra_tui.model.values import ValueKind, Values
from astra_tui.sessions.branches import has_run_since
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.integrity import read_unaltered
from astra_tui.sessions.journal_reader import state_of
from astra_tui.tui.screens.form import Field
from astra_tui.tui.view import View
from astra_tui.tui.widgets.prompt_line import whole_number

_PARAMETER = "set_"
"""Begins the names of fields that are parameters of a plan."""

_GATES = tuple(policy.value for policy in GatePolicy)


def plan_fields(plan: Plan, team: TeamKind, *, timed: bool) -> tuple[Field, ...]:
    """What of a plan can be edited, as fields; evidence is one sentence a line.

    The words of a playbook's plan say what its move does, and do not steer it: they are no fields.
    Nor is the speedup where the device gives no times.
    """
    expected = plan.prediction
    sentences = [observed.sentence for observed in plan.observations]
    words = (
        Field("title", "title", plan.title),
        Field("bottleneck", "bottleneck", plan.bottleneck, long=True),
        Field("evidence", "evidence", "\n".join(sentences), long=True),
        Field("change", "change", plan.change, long=True),
    )
    low, high = expected.speedup or (1.0, 1.0)
    speedup = (
        Field("speedup_low", "speedup, low", f"{low:g}"),
        Field("speedup_high", "speedup, high", f"{high:g}"),
    )
    return (
        *(_parameter_field(parameter) for parameter in plan.parameters),
        *(() if team is TeamKind.PLAYBOOK else words),
        Field("counter", "counter", expected.counter.value, tuple(c.value for c in Counter)),
        Field("counter_ratio", "new / old", f"{expected.counter_ratio:g}"),
        *(speedup if timed else ()),
        Field("risk", "risk", plan.risk.value, tuple(r.value for r in Risk)),
    )


def plan_note(plan: Plan) -> str:
    """How the parameters of a plan are written."""
    return "; ".join(f"{p.name}: {p.meaning}" for p in plan.parameters)


def _parameter_field(parameter: Parameter) -> Field:
    several = isinstance(parameter.value, tuple)
    options = () if several else tuple(map(str, parameter.choices))
    return Field(
        _PARAMETER + parameter.name,
        parameter.name.replace("_", " "),
        ", ".join(map(str, parameter.chosen)),
        options,
    )


def _settings(values: Mapping[str, str], before: Plan) -> dict[str, Choice | tuple[Choice, ...]]:
    """The values of the plan's parameters; a text that is none of the choices stays as it is."""
    known = {p.name: {str(c): c for c in p.choices} for p in before.parameters}
    settings: dict[str, Choice | tuple[Choice, ...]] = {}
    for parameter in before.parameters:
        written = values[_PARAMETER + parameter.name].replace(",", " ").split()
        settings[parameter.name] = tuple(known[parameter.name].get(w, w) for w in written)
    return settings


def plan_of(values: Mapping[str, str], before: Plan) -> Plan:
    """The plan that fields make of the one before. Raises UserError that names the field.

    Whether the team would follow it, the engine says.
    """
    low, high = before.prediction.speedup_low, before.prediction.speedup_high
    if "speedup_low" in values:
        low, high = _number(values, "speedup_low"), _number(values, "speedup_high")
        if low > high:
            raise UserError("speedup, low is above speedup, high")
    prediction = Prediction(low, high, Counter(values["counter"]), _number(values, "counter_ratio"))
    plan = before.having(_settings(values, before))
    plan = replace(plan, prediction=prediction, risk=Risk(values["risk"]))
    if "change" not in values:
        return plan
    return replace(
        plan,
        title=_text(values, "title"),
        bottleneck=_text(values, "bottleneck"),
        evidence=_evidence(values["evidence"], before),
        change=_text(values, "change"),
    )


def _evidence(text: str, before: Plan) -> tuple[str | Observation, ...]:
    """A sentence a line; those that were there before keep the numbers that they cite."""
    known: dict[str, list[str | Observation]] = {}
    for observation, evidence in zip(before.observations, before.evidence, strict=True):
        known.setdefault(observation.sentence, []).append(evidence)
    lines = (line.strip() for line in text.split("\n"))
    return tuple(known[line].pop(0) if known.get(line) else line for line in lines if line)


def run_fields(request: RunRequest) -> tuple[Field, ...]:
    """What may be chosen before a run."""
    settings = request.settings
    approval = settings.approval
    return (
        Field("team", "team", settings.team.value, tuple(t.value for t in TeamKind)),
        Field("model", "model", settings.model),
        Field("base_url", "server", settings.base_url),
        Field("rounds", "rounds", str(settings.rounds)),
        Field("candidates", "plans per round", str(settings.candidates)),
        Field(
            "search", "rounds stand on", settings.search.value, tuple(s.value for s in SearchKind)
        ),
        Field("plan", "plans", approval.plan.value, _GATES),
        Field("diff", "diffs", approval.diff.value, _GATES),
        Field(
            "max_risk", "auto-accept up to", approval.max_risk.value, tuple(r.value for r in Risk)
        ),
    )


def run_of(values: Mapping[str, str], before: RunRequest) -> RunRequest:
    """The request that fields make. Raises UserError that names the field."""
    approval = Approval(
        plan=GatePolicy(values["plan"]),
        diff=GatePolicy(values["diff"]),
        max_risk=Risk(values["max_risk"]),
        decisions=before.settings.approval.decisions,
    )
    settings = replace(
        before.settings,
        team=TeamKind(values["team"]),
        model=values["model"].strip(),
        base_url=values["base_url"].strip(),
        rounds=_count(values, "rounds"),
        candidates=_count(values, "candidates"),
        search=SearchKind(values["search"]),
        approval=approval,
    )
    if "wire" in values:
        settings = with_models(values, settings)
    return replace(before, settings=settings)


MODEL_NOTE = (
    "An empty field leaves it to the line for all agents, and there to the server. "
    "The playbook has no model."
)
_ALL = "all"
_ASKED = {
    "model": ("model", ""),
    "effort": ("effort", ""),
    "output_tokens": ("tokens", "a whole number from 1 on"),
    "temperature": ("temperature", "a number from 0 to 2"),
    "wire": ("wire", "auto, responses or chat"),
    "silence_seconds": ("silence, s", "a number of seconds above 0"),
    "call_seconds": ("a call, s", "a number of seconds above 0"),
}
"""What each agent's model can be told: its word, and what its field takes."""

_SECONDS = {"silence_seconds": "silence, seconds", "call_seconds": "a call, seconds"}


def model_fields(settings: RunSettings) -> tuple[Field, ...]:
    """How models are asked: all of them, then those of single agents."""
    general = ModelSettings("", settings.effort, settings.output_tokens, settings.temperature)
    seconds = (
        Field(name, label, _shown(getattr(settings, name))) for name, label in _SECONDS.items()
    )
    # The model is in the form of the run; wire and seconds have fields of their own.
    everyone = _asked_fields(_ALL, general)[1:4]
    return (
        replace(everyone[0], label=f"all agents: {everyone[0].label.strip()}"),
        *everyone[1:],
        Field("wire", "wire", settings.wire.value, tuple(w.value for w in WireChoice)),
        *seconds,
        *(
            field
            for role in Role
            for field in _asked_fields(role.value, settings.roles.get(role, ModelSettings()))
        ),
    )


def _asked_fields(who: str, asked: ModelSettings) -> tuple[Field, ...]:
    first = f"{who}: "
    return tuple(
        Field(
            f"{who}_{name}",
            (first if number == 0 else " " * len(first)) + word,
            _shown(getattr(asked, name)),
        )
        for number, (name, (word, _)) in enumerate(_ASKED.items())
    )


def _shown(value: str | float | None) -> str:
    return "" if value is None or value is WireChoice.AUTO else str(value)


def with_models(values: Mapping[str, str], settings: RunSettings) -> RunSettings:
    """The settings with those of `model_fields`. Raises UserError that names the field."""
    general = _asked(values, _ALL)
    roles = {role: _asked(values, role.value) for role in Role}
    return replace(
        settings,
        effort=general.effort,
        output_tokens=general.output_tokens,
        temperature=general.temperature,
        roles={role: asked for role, asked in roles.items() if asked != ModelSettings()},
        wire=WireChoice(values["wire"]),
        **{name: _seconds(values, name) for name in _SECONDS},
    )


def _asked(values: Mapping[str, str], who: str) -> ModelSettings:
    asked = ModelSettings()
    for name, (word, takes) in _ASKED.items():
        text = values.get(f"{who}_{name}", "").strip()
        if text:
            try:
                one = msgspec.convert({name: text}, ModelSettings, strict=False)
            except msgspec.ValidationError:
                raise UserError(f"{who}: {word}: '{text}' is not {takes}") from None
            asked = one.over(asked)
    return asked


def _seconds(values: Mapping[str, str], name: str) -> float | None:
    seconds = _number(values, name) if values[name].strip() else None
    if seconds == 0:
        raise UserError(f"{_SECONDS[name]} has to be more than 0")
    return seconds


def resuming(request: RunRequest, folder: Path) -> RunRequest:
    """A request that continues with a session, with at least one round to do.

    A branch that has not run yet takes the device of the request. A session may come from someone
    else: the model's server is the one of our own settings, and its task, where the request does
    not name a folder, has to be one that has a name here. Raises UserError where it has none, and
    when the journal cannot be read or was altered.
    """
    found = read_unaltered(folder)
    state = state_of(found, folder)
    if state.opened is None:
        raise UserError("the journal holds no session", file=str(folder))
    has_run = has_run_since(found.records, state.opened)
    rounds = max(state.round_limit, state.rounds_done + 1)
    server = request.settings.base_url
    settings = replace(
        state.opened.settings,
        rounds=rounds,
        base_url=server,
        device=state.device_name if has_run else request.settings.device,
    )
    is_named = request.task == settings.task
    if is_named and settings.task not in {found.name for found in list_tasks()}:
        message = f"the task of this session, '{settings.task}', has no name here"
        raise UserError(message, hint=f"see: astra-tui resume {folder} --help")
    return replace(request, folder=str(folder), settings=settings)


def _text(values: Mapping[str, str], name: str) -> str:
    text = values[name].strip()
    if not text:
        raise UserError(f"{name} is empty")
    return text


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        number = float(values[name])
    except ValueError:
        raise UserError(f"{name.replace('_', ' ')}: '{values[name]}' is no number") from None
    if not math.isfinite(number) or number < 0:
        raise UserError(f"{name.replace('_', ' ')} has to be a positive number")
    return number


def _count(values: Mapping[str, str], name: str) -> int:
    number = whole_number(values[name])
    if not number:
        text = values[name].strip()
        raise UserError(f"{name}: a whole number from 1 on is needed, not '{text}'")
    return number


def case_fields(view: View) -> tuple[Field, ...]:
    """The fields, filled in from a case that the candidate has been checked with."""
    cases = _known_cases(view)
    dtypes = tuple(dict.fromkeys(case.dtype for case in cases)) or tuple(FLOATS.values())
    sizes = ", ".join(f"{name} = {size}" for name, size in _known_dims(cases).items())
    return (
        Field("case_name", "name", ""),
        Field("why", "why", ""),
        Field("dtype", "type", dtypes[0].value, tuple(d.value for d in dtypes)),
        Field("dims", "sizes", sizes),
        Field("values", "inputs", "", long=True),
    )


def case_note(view: View) -> str:
    """How sizes and inputs are written, with the names of the task's sizes."""
    dims = _known_dims(_known_cases(view))
    sizes = ", ".join(f"{name} = {size}" for name, size in dims.items())
    written = f"sizes: {sizes}" if sizes else "sizes, for example: tokens = 16, d = 513"
    return f"{written}; inputs, one a line: NAME: uniform -1 1 nan"


def _known_cases(view: View) -> list[Case]:
    """Cases of the chosen candidate, else of another one that was checked."""
    others = view.state.candidates.values()
    known = (c.results for c in (view.candidate, *others) if c is not None)
    return [result.case for result in next(filter(None, known), ())]


def _known_dims(cases: list[Case]) -> Mapping[str, int]:
    return cases[0].dims if cases else {}


def case_of(values: Mapping[str, str]) -> Case:
    """The case of the fields. Raises UserError that says how a field is written."""
    name = values["case_name"].strip()
    if not name or not name.isprintable():
        raise UserError("the case needs a name")
    return Case(
        name=name,
        why=values["why"].strip() or "added by hand",
        dtype=DType(values["dtype"]),
        dims=_dims(values["dims"]),
        values=dict(_input(line) for line in values["values"].split("\n") if line.strip()),
    )


def _dims(text: str) -> dict[str, int]:
    dims: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, size = (p.strip() for p in part.partition("="))
        number = whole_number(size)
        if not name.isidentifier() or number is None:
            raise UserError(f"sizes: '{part}'", hint="for example: tokens = 16, d = 513")
        dims[name] = number
    return dims


def _input(line: str) -> tuple[str, Values]:
    """As in "input: uniform -1 1 nan": argument, distribution, its numbers, what is planted."""
    name, _, rest = line.partition(":")
    words = rest.split()
    example = "for example: input: uniform -1 1, or input: normal 0 1 nan inf"
    if not words:
        raise UserError(f"inputs: '{line.strip()}'", hint=example)
    kinds = [kind.value for kind in ValueKind]
    if words[0] not in kinds:
        raise UserError(f"inputs: '{words[0]}' is no distribution", hint=nearest(words[0], kinds))
    try:
        low = float(words[1]) if len(words) > 1 else 0.0
        high = float(words[2]) if len(words) > 2 else 1.0
    except ValueError:
        raise UserError(f"inputs: '{line.strip()}'", hint=example) from None
    return name.strip(), Values(ValueKind(words[0]), low, high, tuple(words[3:]))
