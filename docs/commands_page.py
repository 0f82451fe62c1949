"""The generated parts of docs/commands.md: every command with its arguments, and the exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from astra_tui.cli.commands import build_parser
from astra_tui.cli.exit_codes import MEANINGS
from astra_tui.cli.parsing import CommandParser


def command_sections() -> str:
    """A section for each command: what it does, how it is called, its arguments and flags."""
    return "\n".join(_section(parser) for parser in build_parser().commands().values())


def exit_code_table() -> str:
    """The exit codes."""
    lines = ["| code | meaning |", "| ---: | --- |"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(lines)


def _section(parser: CommandParser) -> str:
    actions = parser.actions()
    call = " ".join([parser.prog, *map(_in_usage, actions)])
    description = " ".join((parser.description or "").split())
    head = f"### {parser.prog}\n\n{description}\n\n```text\n{call}\n```\n\n"
    return head + "\n".join(_table(actions)) + "\n"


def _in_usage(action: argparse.Action) -> str:
    if not action.option_strings:
        name = str(action.metavar)
        shapes = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}
        return shapes.get(str(action.nargs), name)
    flag = action.option_strings[0]
    text = flag if action.nargs == 0 else f"{flag} {_value(action)}"
    return text if action.required else f"[{text}]"


def _value(action: argparse.Action) -> str:
    """What stands for a flag's value."""
    return str(action.metavar) if action.metavar else "|".join(map(str, action.choices or ()))


def _table(actions: list[argparse.Action]) -> Iterator[str]:
    yield "| argument or flag | meaning | default |"
    yield "| --- | --- | --- |"
    for action in actions:
        names = ", ".join(f"`{flag}`" for flag in action.option_strings) or f"`{action.metavar}`"
        if action.option_strings and action.nargs != 0:
            names += f" `{_value(action)}`"
        names = names.replace("|", r"\|")
        meaning = (action.help or "").replace("|", r"\|").replace("*", r"\*")
        yield f"| {names} | {meaning} | {_default(action)} |"


def _default(action: argparse.Action) -> str:
    if action.required and action.nargs != "*":
        return "required"
    if action.nargs == 0:
        return "off"
    return f"`{action.default}`" if action.default else "none"
