"""argparse with three habits mended: see `CommandParser`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import nearest


class CommandParser(argparse.ArgumentParser):
    """A parser whose flags may stand between positional arguments, and are never abbreviated.

    An unknown command or flag is answered with the nearest one, in two lines without the usage.
    """

    def __init__(self, **settings: Any):
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings, allow_abbrev=False)
        self._intermixing = False

    def commands(self) -> dict[str, CommandParser]:
        """The parsers of the commands by name; empty for a command itself."""
        if self._subparsers is None:
            return {}
        (action,) = self._subparsers._group_actions
        return {str(k): v for k, v in dict(action.choices or {}).items()}

    def actions(self) -> list[argparse.Action]:
        """The arguments and flags, in the order of the help."""
        return [a for a in self._actions if not isinstance(a, argparse._HelpAction)]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses arguments; ends the process for an unknown one."""
        if self._intermixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._intermixing = True  # The call below comes back here, once a pass.
        try:
            options, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False
        if unknown:
            self._refuse_unknown(unknown[0])
        return options, []

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = "command" if isinstance(action, argparse._SubParsersAction) else action.dest
            self._refuse(f"there is no {what} '{value}'", nearest(str(value), _names(action)))

    def _refuse_unknown(self, argument: str) -> NoReturn:
        if not argument.startswith("-"):
            self._refuse(f"one argument too many: {argument}", f"see: {self.prog} --help")
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        name = argument.partition("=")[0]
        self._refuse(f"there is no flag {name}", nearest(name, flags))

    def error(self, message: str) -> NoReturn:
        """Ends the process with the message and where to read on."""
        self._refuse(message, f"see: {self.prog} --help")

    def _refuse(self, message: str, hint: str) -> NoReturn:
        self.exit(ExitCode.BAD_INPUT, f"{self.prog}: {message}\n  {hint}\n")


def _names(action: argparse.Action) -> Iterable[str]:
    return map(str, action.choices or ())


def at_least_one(text: str) -> int:
    """A whole number of 1 or more, as a flag's type."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 1 or more")
    return int(text)


def whole_number(text: str) -> int:
    """A whole number of 0 or more, as a flag's type."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 0 or more")
    return int(text)


def positive_number(text: str) -> float:
    """A finite number above 0, as a flag's type."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


SLOWEST, FASTEST = 0.5, 100.0
"""How many seconds of a session may pass in one of its replay."""


def replay_speed(text: str) -> float:
    """From 0.5 to 100 times as fast as it happened; infinity for "instant"."""
    if text == "instant":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not SLOWEST <= speed <= FASTEST:
        message = f"'{text}' is no speed: a number from {SLOWEST:g} to {FASTEST:g}, or instant"
        raise argparse.ArgumentTypeError(message)
    return speed
