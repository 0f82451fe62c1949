"""How a command is declared: click, with help for arguments, and errors that name the next step."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from textwrap import fill
from types import SimpleNamespace
from typing import Any

import click

from astra_tui.cli.exit_codes import MEANINGS, ExitCode
from astra_tui.model.errors import UserError, nearest

Options = SimpleNamespace
"""What a command was told: an attribute for each argument and flag, named like it."""

EPILOG = "exit codes:\n" + "\n".join(f"  {int(c):3}  {text}" for c, text in MEANINGS.items())
_WIDTH = 80
_UNBROKEN = str.maketrans("- ", "\u2011\xa0")
"""Of a flag with its value, which stays on one line."""
_BROKEN = str.maketrans("\u2011\xa0", "- ")

MIN_MEMORY = 192 << 20
"""Bytes of address space below which NumPy's library ends a process without an exception."""


class BadUsage(click.UsageError):
    """What is wrong with a command line, and what to do next."""

    def __init__(self, ctx: click.Context | None, message: str, hint: str):
        super().__init__(message, ctx)
        self.hint = hint


class Argument(click.Argument):
    """A positional argument, which has a help text like a flag."""

    def __init__(self, *names: Any, help: str, **settings: Any):  # noqa: A002
        super().__init__(*names, **settings)
        self.help = help


class OneOf(click.Choice[str]):
    """One of some words; a wrong one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word. Raises BadUsage."""
        if value not in self.choices:
            what = param.name if param is not None else "word"
            raise BadUsage(ctx, f"there is no {what} '{value}'", nearest(str(value), self.choices))
        return str(value)


class Command(click.Command):
    """A command: what its module's `run` does, with errors in two lines and without the usage."""

    def __init__(self, *arguments: Any, example: str, **settings: Any):
        super().__init__(*arguments, **settings)
        self.example = example
        """A call of it, as one would type it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses arguments. Raises click.UsageError for an unknown one."""
        ctx.allow_extra_args = True
        try:
            super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.partition("=")[0]
            flags = [o for p in self.params for o in p.opts if o.startswith("--")]
            raise BadUsage(ctx, f"there is no flag {name}", nearest(name, flags)) from None
        if ctx.args and not ctx.resilient_parsing:
            hint = f"see: {ctx.command_path} --help"
            raise BadUsage(ctx, f"one argument too many: {ctx.args[0]}", hint)
        return ctx.args

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The flag that shows the help."""
        return _helping(super().get_help_option(ctx))

    def invoke(self, ctx: click.Context) -> int:
        """The exit code of the command."""
        options = Options(**ctx.params)
        if hasattr(options, "device"):
            _require_memory()
        assert self.callback is not None
        try:
            return int(self.callback(options))
        except UserError as error:
            from astra_tui.cli.exit_codes import report_failure

            return report_failure(error, as_json=getattr(options, "json", False))

    def get_help(self, ctx: click.Context) -> str:
        """Usage, what it does, arguments, flags, and exit codes."""
        formatter = click.HelpFormatter(width=_WIDTH - 1, max_width=_WIDTH - 1)
        parts = [usage_of(p) for p in (*self.get_params(ctx)[-1:], *self.params)]
        usage = " ".join(part.translate(_UNBROKEN) for part in parts)
        formatter.write_usage(ctx.command_path, usage, prefix="usage: ")
        formatter.write(f"\n{self.help}\n")
        arguments = [p for p in self.params if isinstance(p, Argument)]
        flags = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        _write_section(formatter, "arguments", [(name_of(a), a.help or "") for a in arguments])
        _write_section(formatter, "options", [(names_of(f), f.help or "") for f in flags])
        formatter.write(f"\nexample:\n  {self.example}\n\n{EPILOG}\n")
        return formatter.getvalue().rstrip("\n").translate(_BROKEN)


def _helping(option: click.Option | None) -> click.Option | None:
    if option is not None:
        option.help = "show this message and exit"
    return option


def _write_section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        formatter.write(f"\n{title}:\n")
        formatter.indent()
        formatter.write_dl(rows, col_max=22)
        formatter.dedent()


def name_of(parameter: click.Parameter) -> str:
    """What stands for a value: its metavar, or the words that it may be."""
    if parameter.metavar:
        return parameter.metavar
    return "|".join(parameter.type.choices) if isinstance(parameter.type, click.Choice) else ""


def names_of(flag: click.Option) -> str:
    """Such as "-v, --verbose" or "--rows N"."""
    names = ", ".join((*flag.opts, *flag.secondary_opts))
    return names if flag.is_flag else f"{names} {name_of(flag)}"


def usage_of(parameter: click.Parameter) -> str:
    """How a parameter stands in the usage of its command."""
    if isinstance(parameter, click.Option):
        text = (
            parameter.opts[0] if parameter.is_flag else f"{parameter.opts[0]} {name_of(parameter)}"
        )
        return text if parameter.required else f"[{text}]"
    name = name_of(parameter)
    if parameter.nargs == -1:
        return f"{name} [{name} ...]" if parameter.required else f"[{name} ...]"
    return name if parameter.required else f"[{name}]"


class Commands(click.Group):
    """All commands. The module of one is loaded when it is called."""

    def __init__(self, name: str, summaries: Mapping[str, str], **settings: Any):
        super().__init__(name, **settings)
        self.summaries = summaries
        """One line for each command, in the order of the help."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The flag that shows the help."""
        return _helping(super().get_help_option(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, name: str) -> Command | None:  # noqa: ARG002
        """The command of that name."""
        if name not in self.summaries:
            return None
        found = importlib.import_module(f"astra_tui.cli.commands.{name}").run
        assert isinstance(found, Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, and its arguments. Raises BadUsage."""
        name, *rest = args
        found = self.get_command(ctx, name)
        if found is None and name.startswith("-"):
            raise BadUsage(ctx, f"there is no flag {name}", f"see: {ctx.command_path} --help")
        if found is None:
            raise BadUsage(ctx, f"there is no command '{name}'", nearest(name, self.summaries))
        return name, found, rest

    def get_help(self, ctx: click.Context) -> str:
        """Usage and all commands, of which none is loaded."""
        formatter = click.HelpFormatter(width=_WIDTH - 1, max_width=_WIDTH - 1)
        formatter.write_usage(ctx.command_path, "[-h] [--version] COMMAND ...", prefix="usage: ")
        formatter.write(f"\n{self.help}\n")
        flags = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        _write_section(formatter, "options", [(names_of(f), f.help or "") for f in flags])
        formatter.indent()
        _write_section(formatter, "commands", list(self.summaries.items()))
        formatter.dedent()
        formatter.write(f"\n{EPILOG}\n")
        return formatter.getvalue().rstrip("\n")


def command(
    summary: str, more: str, *parameters: click.Parameter, example: str
) -> Callable[[Callable[[Options], int]], Command]:
    """Makes the command of a module from its `run`; its `summary` is in `commands` as well."""

    def made(run: Callable[[Options], int]) -> Command:
        return Command(
            run.__module__.rpartition(".")[2],
            callback=run,
            params=list(parameters),
            example=example,
            help=f"{summary[0].upper()}{summary[1:]}.\n{fill(more, _WIDTH - 1)}".strip(),
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    return made


def argument(name: str, metavar: str, help: str, **settings: Any) -> Argument:  # noqa: A002
    """A positional argument; `required=False` and `nargs=-1` as click has them."""
    return Argument([name], metavar=metavar, help=help, **settings)


def flag(*names: str, help: str, **settings: Any) -> click.Option:  # noqa: A002
    """A flag; with the name of its value (`metavar`), or its words (`OneOf`), it has one."""
    if "metavar" not in settings and "type" not in settings and "default" not in settings:
        settings["is_flag"] = True
    return click.Option(names, help=help, **settings)


def switch(name: str, help: str) -> click.Option:  # noqa: A002
    """A flag that says yes or no, and neither where it is left out: `--x`, `--no-x`."""
    return click.Option([f"{name}/--no-{name[2:]}"], default=None, help=help)


def at_least_one(text: str | int) -> int:
    """A whole number of 1 or more, as a flag's type; a default is one already."""
    text = str(text)
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise click.BadParameter(f"'{text}' is not a whole number of 1 or more")
    return int(text)


def whole_number(text: str | int) -> int:
    """A whole number of 0 or more, as a flag's type; a default is one already."""
    text = str(text)
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(f"'{text}' is not a whole number of 0 or more")
    return int(text)


def positive_number(text: str) -> float:
    """A finite number above 0, as a flag's type."""
    number = _number(text)
    if not 0 < number < math.inf:
        raise click.BadParameter(f"'{text}' is not a number above 0")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def usage_words(error: click.UsageError) -> tuple[str, str]:
    """What is wrong with a command line, and what to do next."""
    path = error.ctx.command_path if error.ctx is not None else "astra-tui"
    hint = error.hint if isinstance(error, BadUsage) else f"see: {path} --help"
    return f"{path}: {_words_of(error)}", hint


def _words_of(error: click.UsageError) -> str:
    parameter = error.param if isinstance(error, click.BadParameter) else None
    if isinstance(error, click.MissingParameter) and parameter is not None:
        name = parameter.opts[0] if isinstance(parameter, click.Option) else name_of(parameter)
        return f"the following arguments are required: {name}"
    if parameter is not None and not isinstance(error, click.MissingParameter):
        name = parameter.opts[0] if isinstance(parameter, click.Option) else name_of(parameter)
        return f"argument {name}: {error.message}"
    message = error.message.rstrip(".")
    return message[:1].lower() + message[1:]


def exit_with_usage(error: click.UsageError, as_json: bool) -> ExitCode:
    """Prints what is wrong with a command line, as JSON too if asked; returns the exit code."""
    message, hint = usage_words(error)
    click.echo(f"{message}\n  {hint}", err=True)
    if as_json:
        from astra_tui import plain
        from astra_tui.cli.json_answers import ErrorAnswer, ErrorEntry

        entry = ErrorEntry(message, file="", line=0, column=0, hint=hint)
        plain.print_json(ErrorAnswer(int(ExitCode.BAD_INPUT), entry))
    return ExitCode.BAD_INPUT


def _require_memory() -> None:
    """Raises MemoryError where a command that runs kernels has no room to load what it needs."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < MIN_MEMORY:
        raise MemoryError(
            f"this process may use {limit >> 20} MiB of memory, and needs {MIN_MEMORY >> 20}"
        )
