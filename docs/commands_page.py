"""The generated parts of docs/commands.md: every command with its arguments, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from astra_tui.cli.click_command import Command, name_of, usage_of
from astra_tui.cli.commands import COMMANDS
from astra_tui.cli.exit_codes import MEANINGS


def command_sections() -> str:
    """A section for each command: what it does, how it is called, its arguments and flags."""
    context = click.Context(COMMANDS, info_name="astra-tui")
    found = (COMMANDS.get_command(context, name) for name in COMMANDS.list_commands(context))
    return "\n".join(_section(command) for command in found if command is not None)


def exit_code_table() -> str:
    """The exit codes."""
    lines = ["| code | meaning |", "| ---: | --- |"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(lines)


def _section(command: Command) -> str:
    call = " ".join([f"astra-tui {command.name}", *map(usage_of, command.params)])
    description = " ".join((command.help or "").split())
    head = f"### astra-tui {command.name}\n\n{description}\n\n```text\n{call}\n```\n\n"
    head += f"For example `{command.example}`.\n\n"
    return head + "\n".join(_table(command.params)) + "\n"


def _table(parameters: Sequence[click.Parameter]) -> Iterator[str]:
    yield "| argument or flag | meaning | default |"
    yield "| --- | --- | --- |"
    for parameter in parameters:
        names = f"`{name_of(parameter)}`"
        if isinstance(parameter, click.Option):
            flags = (*parameter.opts, *parameter.secondary_opts)
            names = ", ".join(f"`{flag}`" for flag in flags)
            if not parameter.is_flag:
                names += f" `{name_of(parameter)}`"
        meaning = getattr(parameter, "help", None) or ""
        cells = names.replace("|", r"\|"), meaning.replace("|", r"\|").replace("*", r"\*")
        yield f"| {cells[0]} | {cells[1]} | {_default(parameter)} |"


def _default(parameter: click.Parameter) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return "off"
    default = parameter.get_default(click.Context(COMMANDS), call=False)
    return f"`{default}`" if isinstance(default, str | int) and default else "none"
