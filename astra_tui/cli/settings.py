"""What a run is asked to do: flags, then the environment, then a TOML file. Strictly checked."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
import platformdirs

from astra_tui.cli.click_command import Options
from astra_tui.cli.flags import chosen_seed
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError, nearest, value_words
from astra_tui.model.plan import Risk
from astra_tui.model.roles import Role
from astra_tui.model.settings import (
    AUTO_DEVICE,
    KEY_VARIABLES,
    NEAR_FLOOR,
    SWEPT,
    Approval,
    Budget,
    GatePolicy,
    ModelSettings,
    Notification,
    RunSettings,
    SearchKind,
    TeamKind,
    ToolLimits,
    WireChoice,
    api_key,
    check_device_name,
)
from astra_tui.sessions.engines import LINGER_SECONDS, RunRequest
from astra_tui.sessions.store import sessions_folder

if TYPE_CHECKING:
    from astra_tui.model.task.table import Table

PREFIX = "ASTRA_TUI_"
PROJECT_FILE = Path("astra-tui.toml")

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]
_Dollars = Annotated[float, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Choices(msgspec.Struct, frozen=True):
    """Everything that can be set; None where no one has. The TOML file has these keys."""

    team: TeamKind | None = None
    device: str | None = None
    rounds: _AtLeastOne | None = None
    candidates: _AtLeastOne | None = None
    repairs: _NotNegative | None = None
    reflections: _NotNegative | None = None
    search: SearchKind | None = None
    approve: str | None = None
    approve_plan: GatePolicy | None = None
    approve_diff: GatePolicy | None = None
    max_risk: Risk | None = None
    model: str | None = None
    base_url: str | None = None
    effort: str | None = None
    output_tokens: _AtLeastOne | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    wire: WireChoice | None = None
    silence_seconds: _Seconds | None = None
    call_seconds: _Seconds | None = None
    roles: dict[Role, ModelSettings] | None = None
    """How single roles ask a model, where not as all: `[roles.coding]` with `model` and so on."""
    tool_calls: _NotNegative | None = None
    """Of tools, in one turn of an agent; 0: it has none."""
    tool_seconds: _Seconds | None = None
    tool_tokens: _AtLeastOne | None = None
    drafts: bool | None = None
    """Whether drafts of agents may be launched on the GPU."""
    sessions: str | None = None
    title: str | None = None
    linger_seconds: _Seconds | None = None
    budget_tokens: _NotNegative | None = None
    budget_dollars: _Dollars | None = None
    budget_gpu_seconds: _Seconds | None = None
    budget_calls: _NotNegative | None = None
    roofline: _Share | None = None
    sweep: _Share | None = None
    sanitize: bool | None = None
    ncu: bool | None = None
    price_input_per_million: _Dollars | None = None
    price_cached_per_million: _Dollars | None = None
    price_output_per_million: _Dollars | None = None
    plain: bool | None = None
    """Lines of text instead of the screen."""
    theme: str | None = None
    notify: Notification | None = None
    """How the screen says that a decision waits."""
    keys: dict[str, str] | None = None
    """Keys of the screen by the name of what they do; see docs/screen.md."""


_TYPES = get_type_hints(Choices, include_extras=True)


def read_choices(options: Options) -> Choices:
    """Flags before environment before file. Raises UserError that names the culprit."""
    chosen = {**_from_file(options.config), **_from_environment(os.environ), **_from_flags(options)}
    return Choices(**chosen)


def choices_of(table: Table, known: Choices, refused: Collection[str]) -> Choices:
    """What a table of another file sets, over what is known; it has the keys of a settings file,
    but for those that are refused there. Raises TaskError, which names file, line and key.
    """
    chosen: dict[str, Any] = {}
    names = [name for name in _TYPES if name not in refused]
    for name, value in table.data.items():
        if name in table.known:
            continue
        if name not in names:
            table.fail("unknown setting", name, nearest(name, names))
        try:
            chosen[name] = msgspec.convert(value, _TYPES[name], strict=True)
        except msgspec.ValidationError as error:
            table.fail(value_words(error), name, _valid(_TYPES[name], value))
    return msgspec.structs.replace(known, **chosen)


def request_for(choices: Choices, task: str, before: RunSettings | None = None) -> RunRequest:
    """A new session on a task, with the settings of the session `before` where there was one."""
    return RunRequest(
        task=task,
        settings=run_settings(choices, task, os.environ, before),
        sessions=str(sessions_folder(choices.sessions)),
        seed=chosen_seed(None),
        linger_seconds=choices.linger_seconds or LINGER_SECONDS,
        price_input_per_million=choices.price_input_per_million,
        price_output_per_million=choices.price_output_per_million,
        price_cached_per_million=choices.price_cached_per_million,
    )


def run_settings(
    choices: Choices, task: str, environment: Mapping[str, str], before: RunSettings | None = None
) -> RunSettings:
    """The settings of a run. Where no one chose, those of the session `before` hold, or defaults.

    Raises UserError for a device or a file of decisions that does not exist.
    """
    if choices.device is not None:
        check_device_name(choices.device)
    team = _default_team(choices, environment)
    known = before or RunSettings(task, team, AUTO_DEVICE, roofline=NEAR_FLOOR, sweep=SWEPT)
    return RunSettings(
        task=task,
        team=choices.team or known.team,
        device=choices.device or known.device,
        rounds=known.rounds if choices.rounds is None else choices.rounds,
        candidates=known.candidates if choices.candidates is None else choices.candidates,
        repairs=known.repairs if choices.repairs is None else choices.repairs,
        reflections=known.reflections if choices.reflections is None else choices.reflections,
        search=choices.search or known.search,
        approval=_approval(choices, known.approval),
        title=known.title if choices.title is None else choices.title,
        roofline=known.roofline if choices.roofline is None else choices.roofline,
        sweep=known.sweep if choices.sweep is None else choices.sweep,
        sanitize=known.sanitize if choices.sanitize is None else choices.sanitize,
        ncu=known.ncu if choices.ncu is None else choices.ncu,
        budget=_budget(choices, known.budget),
        model=known.model if choices.model is None else choices.model,
        base_url=known.base_url if choices.base_url is None else choices.base_url,
        effort=known.effort if choices.effort is None else choices.effort,
        output_tokens=choices.output_tokens or known.output_tokens,
        temperature=known.temperature if choices.temperature is None else choices.temperature,
        roles=known.roles if choices.roles is None else choices.roles,
        wire=choices.wire or known.wire,
        silence_seconds=choices.silence_seconds or known.silence_seconds,
        call_seconds=choices.call_seconds or known.call_seconds,
        tools=_tools(choices, known.tools),
    )


def _tools(choices: Choices, known: ToolLimits) -> ToolLimits:
    return ToolLimits(
        known.calls if choices.tool_calls is None else choices.tool_calls,
        choices.tool_seconds or known.seconds,
        choices.tool_tokens or known.tokens,
        known.drafts if choices.drafts is None else choices.drafts,
    )


def _budget(choices: Choices, known: Budget) -> Budget:
    def chosen(new: float | None, old: float | None) -> Any:
        return old if new is None else new

    return Budget(
        chosen(choices.budget_tokens, known.tokens),
        chosen(choices.budget_dollars, known.dollars),
        chosen(choices.budget_gpu_seconds, known.gpu_seconds),
        chosen(choices.budget_calls, known.calls),
    )


def _default_team(choices: Choices, environment: Mapping[str, str]) -> TeamKind:
    has_model = bool(choices.base_url or choices.model or api_key(environment))
    return TeamKind.LLM if has_model else TeamKind.PLAYBOOK


def _approval(choices: Choices, known: Approval) -> Approval:
    plan, diff, decisions = known.plan, known.diff, known.decisions
    if choices.approve in list(GatePolicy):
        plan = diff = GatePolicy(choices.approve)
        decisions = ""
    elif choices.approve is not None:
        plan = diff = GatePolicy.ASK
        decisions = choices.approve
    if decisions:
        _check_decisions(Path(decisions))
    return Approval(
        plan=choices.approve_plan or plan,
        diff=choices.approve_diff or diff,
        max_risk=choices.max_risk or known.max_risk,
        decisions=decisions,
    )


def _check_decisions(file: Path) -> None:
    from astra_tui.engine.policy import read_decisions

    if not file.is_file():
        raise UserError(
            f"--approve takes ask, auto, or a file of decisions; there is no file '{file}'"
        )
    read_decisions(file)


def _from_flags(options: Options) -> dict[str, Any]:
    flags = {name: getattr(options, name, None) for name in _TYPES}
    roles = flags.pop("roles", None) or ()
    chosen = {
        name: _converted(name, value, f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None
    }
    if roles:
        chosen["roles"] = _converted("roles", _of_roles(roles, "--role"), "--role")
    return chosen


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    variables = {name: PREFIX + name.upper() for name in _TYPES}
    chosen: dict[str, Any] = {n: environment[v] for n, v in variables.items() if environment.get(v)}
    if "roles" in chosen:
        chosen["roles"] = _of_roles(chosen["roles"].split(), variables["roles"])
    return {name: _converted(name, value, variables[name]) for name, value in chosen.items()}


def _of_roles(words: Sequence[str], label: str) -> dict[str, dict[str, str]]:
    """Tables out of words such as `coding.effort=high`. Raises UserError."""
    found: dict[str, dict[str, str]] = {}
    for word in words:
        key, sign, value = word.partition("=")
        role, dot, name = key.partition(".")
        if not (sign and dot and value):
            raise UserError(f"{label}: '{word}' is not like coding.effort=high")
        if role not in list(Role):
            raise UserError(f"{label}: there is no role '{role}'", hint=nearest(role, list(Role)))
        if name not in ModelSettings.__struct_fields__:
            hint = nearest(name, ModelSettings.__struct_fields__)
            raise UserError(f"{label}: a role has no setting '{name}'", hint=hint)
        found.setdefault(role, {})[name] = value
    return found


def _from_file(named: str | None) -> dict[str, Any]:
    file = _settings_file(named)
    if file is None:
        return {}
    try:
        table = tomllib.loads(read_user_file(file, "file of settings").decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=str(file)) from None
    for name in table:
        if name in ("api_key", "key", "token"):
            raise UserError(
                "a key does not belong into a file",
                file=str(file),
                hint=f"put it into the environment, as {KEY_VARIABLES[1]}",
            )
        if name == "base_url" and named is None and file == PROJECT_FILE:
            # A user who clones a repository does not mean to send their key where it says.
            raise UserError(
                "a file of the current folder may not name the model's server",
                file=str(file),
                hint="say --base-url, set ASTRA_TUI_BASE_URL, or put it into your own config.toml",
            )
        if name not in _TYPES:
            raise UserError(f"unknown setting '{name}'", file=str(file), hint=nearest(name, _TYPES))
    return {name: _converted(name, value, name, str(file)) for name, value in table.items()}


def _settings_file(named: str | None) -> Path | None:
    if named is not None:
        return Path(named)
    own = platformdirs.user_config_path("astra-tui") / "config.toml"
    return next((f for f in (PROJECT_FILE, own) if f.is_file()), None)


def _converted(name: str, value: Any, label: str, file: str = "") -> Any:
    """The value as its type. Flags and variables may spell a number as text, a file may not."""
    kind = _TYPES[name]
    try:
        return msgspec.convert(value, kind, strict=bool(file))
    except msgspec.ValidationError as error:
        raise UserError(
            f"{label}: {value_words(error)}", file=file, hint=_valid(kind, value)
        ) from None


def _valid(kind: Any, value: Any) -> str:
    enums = [k for k in get_args(kind) if isinstance(k, type) and issubclass(k, Enum)]
    words = [member.value for enum in enums for member in enum]
    return nearest(str(value), words) if words else ""


def refuse_foreign_server(
    before: RunSettings, choices: Choices, folder: Path, *, trust: bool
) -> None:
    """A key must not go to a server that no one here has named."""
    if choices.base_url is not None or trust or not before.base_url:
        return
    if (choices.team or before.team) is not TeamKind.PLAYBOOK:
        raise UserError(
            f"the session names the model's server, {before.base_url}, to which your key would go",
            file=str(folder),
            hint=f"if it is yours, say: --base-url {before.base_url}",
        )
