"""All commands with a line of help each. What one takes and does is in the module of its name."""

from __future__ import annotations

import click

import astra_tui
from astra_tui.cli.click_command import Commands, Options

SUMMARIES = {
    "run": "optimise a kernel, round by round",
    "study": "run tasks, teams, settings and seeds of a file, and compare them",
    "kernels": "list the kernel tasks",
    "check": "check that kernels compute what their task says",
    "counters": "count memory traffic and instructions, line by line",
    "sass": "show the machine code of a source with its lines",
    "yardstick": "list, fetch or time the kernels that others ship for a task",
    "bench": "time sources against each other on a GPU",
    "tune": "sweep block sizes, packs and `tune` constants of a source on a GPU",
    "audit": "put the gate to the proof with kernels that are known to be wrong or right",
    "new": "make a kernel task from a CUDA source",
    "workloads": "make workloads with weights from what a service recorded",
    "doctor": "try what is installed, and say what is missing",
    "sessions": "list sessions",
    "memory": "list, export or forget what was tried on this machine",
    "replay": "show a saved session again",
    "resume": "resume a session",
    "fork": "branch a session at a given point",
    "compare": "compare two sessions or candidates",
    "verify": "check a saved session, and try its accepted candidates again",
    "bisect": "find the round that introduced a regression",
    "report": "write an HTML and Markdown report of a session",
    "export": "export the best kernel of a session",
    "deliver": "put the best kernel of a session behind a framework's function",
    "sign": "sign a session with your key",
    "pack": "compress the journal of a session that is over",
    "attach": "attach to a running engine",
    "serve": "show the screen in a browser",
    "ps": "list the engines that run now",
    "stop": "end a running engine",
}


def _version(ctx: click.Context, _flag: click.Parameter, given: bool) -> None:
    if given:
        click.echo(f"astra-tui {astra_tui.__version__}")
        ctx.exit()


@click.pass_context
def _begin(ctx: click.Context, /) -> int:
    """Without a command: the screen, or help where there is no terminal for one."""
    if ctx.invoked_subcommand is not None:
        return 0
    from astra_tui.cli.screen import choices_for_screen, show_home

    choices = choices_for_screen(Options())
    if choices is not None:
        return int(show_home(choices))
    click.echo(ctx.get_help())
    return 0


COMMANDS = Commands(
    "astra-tui",
    SUMMARIES,
    callback=_begin,
    help=astra_tui.__doc__,
    invoke_without_command=True,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="show the version and exit",
        )
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
