"""What a run is asked to do: flags, then the environment, then a TOML file. Strictly checked."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from astra_tui.model.errors import UserError, nearest
from astra_tui.model.plan import Risk
from astra_tui.model.settings import Approval, Budget, GatePolicy, RunSettings, TeamKind

PREFIX = "ASTRA_TUI_"
PROJECT_FILE = Path("astra-tui.toml")
KEY_VARIABLES = ("ASTRA_TUI_API_KEY", "OPENAI_API_KEY")


class Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that can be set; None where nobody has. The TOML file has these keys."""

    team: TeamKind | None = None
    device: str | None = None
    rounds: int | None = None
    candidates: int | None = None
    repairs: int | None = None
    approve: str | None = None
    approve_plan: GatePolicy | None = None
    approve_diff: GatePolicy | None = None
    max_risk: Risk | None = None
    model: str | None = None
    base_url: str | None = None
    sessions: str | None = None
    budget_tokens: int | None = None
    budget_dollars: float | None = None
    price_input_per_million: float | None = None
    price_cached_per_million: float | None = None
    price_output_per_million: float | None = None


def read_choices(
    options: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> Choices:
    """Flags before environment before file. Raises UserError that names the culprit."""
    variables = os.environ if environment is None else environment
    merged = {**_from_file(options.config), **_from_environment(variables)}
    merged |= {
        name: value
        for name in Choices.__struct_fields__
        if (value := getattr(options, name, None)) is not None
    }
    return _convert(merged, "the command line")


def run_settings(choices: Choices, task: str, environment: Mapping[str, str]) -> RunSettings:
    """The settings of a run, every default filled in. Raises UserError."""
    if choices.device not in (None, "auto", "emulator"):
        raise UserError(
            f"there is no device '{choices.device}'",
            hint=nearest(str(choices.device), ("auto", "emulator")),
        )
    for name, least in (("rounds", 1), ("candidates", 1), ("repairs", 0)):
        value = getattr(choices, name)
        if value is not None and value < least:
            raise UserError(f"{name} has to be at least {least}, not {value}")
    defaults = RunSettings(task, _team(choices, environment))
    return RunSettings(
        task=task,
        team=defaults.team,
        device="emulator",
        rounds=defaults.rounds if choices.rounds is None else choices.rounds,
        candidates=defaults.candidates if choices.candidates is None else choices.candidates,
        repairs=defaults.repairs if choices.repairs is None else choices.repairs,
        approval=_approval(choices),
        budget=Budget(choices.budget_tokens, choices.budget_dollars),
        model=choices.model or "",
        base_url=choices.base_url or "",
    )


def api_key(environment: Mapping[str, str]) -> str:
    """The key for the model's server; empty when there is none."""
    return next((environment[name] for name in KEY_VARIABLES if environment.get(name)), "")


def _team(choices: Choices, environment: Mapping[str, str]) -> TeamKind:
    if choices.team is not None:
        return choices.team
    has_model = bool(choices.base_url or choices.model or api_key(environment))
    return TeamKind.LLM if has_model else TeamKind.PLAYBOOK


def _approval(choices: Choices) -> Approval:
    given = choices.approve or GatePolicy.ASK.value
    policies = {p.value: p for p in GatePolicy}
    policy = policies.get(given, GatePolicy.ASK)
    decisions = "" if given in policies else given
    if decisions and not Path(decisions).is_file():
        raise UserError(
            f"--approve takes ask, auto, or a file of decisions; there is no file '{decisions}'"
        )
    return Approval(
        plan=choices.approve_plan or policy,
        diff=choices.approve_diff or policy,
        max_risk=choices.max_risk or Risk.HIGH,
        decisions=decisions,
    )


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: environment[PREFIX + name.upper()]
        for name in Choices.__struct_fields__
        if environment.get(PREFIX + name.upper())
    }


def _from_file(named: str | None) -> dict[str, Any]:
    file = _settings_file(named)
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=str(file)) from None
    for name in table:
        if name in ("api_key", "key", "token"):
            raise UserError(
                "a key does not belong into a file",
                file=str(file),
                hint=f"put it into the environment, as {KEY_VARIABLES[1]}",
            )
        if name not in Choices.__struct_fields__:
            raise UserError(
                f"unknown setting '{name}'",
                file=str(file),
                hint=nearest(name, Choices.__struct_fields__),
            )
    _convert(table, str(file))
    return table


def _settings_file(named: str | None) -> Path | None:
    if named is not None:
        return Path(named)
    own = platformdirs.user_config_path("astra-tui") / "config.toml"
    return next((f for f in (PROJECT_FILE, own) if f.is_file()), None)


def _convert(values: Mapping[str, Any], where: str) -> Choices:
    try:
        return msgspec.convert(dict(values), Choices, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"a setting from {where} or the environment: {error}") from None
