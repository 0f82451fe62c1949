"""Every command with its flags and help. What a command does is in the module named after it."""

from __future__ import annotations

import astra_tui
from astra_tui.cli.flags import (
    EPILOG,
    Commands,
    add_command,
    device_flag,
    json_flag,
    run_flags,
    sanitize_flag,
    seed_flag,
)
from astra_tui.cli.parsing import CommandParser, at_least_one
from astra_tui.cli.session_commands import session_commands


def build_parser() -> CommandParser:
    """The parser for all commands."""
    parser = CommandParser(prog="astra-tui", description=astra_tui.__doc__, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"astra-tui {astra_tui.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _run(commands)
    _kernels(commands)
    _check(commands)
    _counters(commands)
    _sass(commands)
    _bench(commands)
    _audit(commands)
    _new(commands)
    _doctor(commands)
    session_commands(commands)
    return parser


def _run(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        "optimise a kernel, round by round",
        "Each round plans one change, writes it, checks it and profiles it; you decide on the "
        "plan and on the diff. Settings come from flags, then from the environment "
        "(ASTRA_TUI_ROUNDS, ...), then from ./astra-tui.toml or the user's config.toml.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    run_flags(parser)
    parser.add_argument(
        "--session", metavar="DIR", help="the session's folder; one that has a journal goes on"
    )
    parser.add_argument(
        "--sessions", metavar="DIR", help="where new sessions go (default: ./sessions)"
    )
    seed_flag(parser)


def _kernels(commands: Commands) -> None:
    parser = add_command(
        commands,
        "kernels",
        "list the kernel tasks",
        "Tasks are looked up in ./kernels, in $ASTRA_TUI_KERNELS, then among the bundled ones.",
    )
    json_flag(parser)


def _check(commands: Commands) -> None:
    parser = add_command(
        commands,
        "check",
        "check that kernels compute what their task says",
        "Without SOURCE, every source in the task's folder is checked.",
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help="a task's name or folder")
    parser.add_argument("sources", nargs="*", metavar="SOURCE.cu", help="kernel sources to check")
    parser.add_argument("--all", action="store_true", help="check every source of every task")
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only cases that match, such as 'float16/d=769' or '*shifted*'; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="list the cases with their reasons")
    seed_flag(parser)
    parser.add_argument("--verbose", "-v", action="store_true", help="show every case")
    sanitize_flag(parser)
    device_flag(parser)
    json_flag(parser)


def _counters(commands: Commands) -> None:
    parser = add_command(
        commands,
        "counters",
        "count memory traffic and instructions, line by line",
        "Counts come from the emulator: they are exact for memory, and never a time. --hardware "
        "puts those of a GPU beside them.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument("source", metavar="SOURCE.cu", help="the kernel source to count")
    parser.add_argument("--against", metavar="OTHER.cu", help="a version to compare with")
    parser.add_argument("--workload", metavar="NAME", help="the workload; by default the first")
    parser.add_argument(
        "--rows",
        type=at_least_one,
        metavar="N",
        help="rows to run; by default as many as stay quick",
    )
    parser.add_argument(
        "--hardware",
        action="store_true",
        help="read the first GPU's own counters with ncu as well, and show both",
    )
    json_flag(parser)


def _sass(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sass",
        "show the machine code of a source beside its lines",
        "It is compiled for sm_90a and disassembled by nvdisasm; no GPU is needed. Counts are of "
        "instructions in the code, not of executions.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument("source", metavar="SOURCE.cu", help="the source to disassemble")
    parser.add_argument("--against", metavar="SOURCE.cu", help="show what changed since this one")
    parser.add_argument("--kernel", metavar="NAME", help="this kernel alone, by its C++ name")
    parser.add_argument(
        "--workload", metavar="NAME", help="the kernels of this workload (default: the first)"
    )
    parser.add_argument(
        "--histogram", action="store_true", help="counts by class alone, without the listing"
    )
    json_flag(parser)


def _bench(commands: Commands) -> None:
    parser = add_command(
        commands,
        "bench",
        "time sources beside each other on a GPU",
        "Every source is checked first; one that is wrong is not timed. The first is the base, "
        "the others are candidates; a single one is timed beside itself, which shows what "
        "differences this machine can tell. docs/timing.md says what is measured.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE.cu", help="the base, then the candidates"
    )
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="NAME",
        help="only this workload (default: all); may be repeated",
    )
    parser.add_argument(
        "--protocol",
        choices=("both", "paired", "paper"),
        default="both",
        help="paired graph replay, the Astra paper's host launches, or both (default)",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="auto (default): the first GPU; or cuda:1",
    )
    parser.add_argument(
        "--energy",
        action="store_true",
        help="also measure the energy of a launch, in blocks of more than a second",
    )
    json_flag(parser)


def _audit(commands: Commands) -> None:
    parser = add_command(
        commands,
        "audit",
        "put the gate to the proof with kernels that are known to be wrong or right",
        "Planted wrong kernels and mutants have to be caught, honest ones have to pass. They lie "
        "in a checkout, under tests/zoo. On a GPU what passes its check is timed as well. Results "
        "are kept line by line, and an audit that was stopped goes on with --resume.",
    )
    parser.add_argument(
        "--device",
        default="emulator",
        metavar="DEVICE",
        help="emulator (default), cuda, cuda:1, or auto: the first GPU, else the emulator",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help="only planted, honest or mutant, or one kind such as 'races'; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GLOB",
        help="only kernels whose names match, such as 'silu-*'; may be repeated",
    )
    parser.add_argument(
        "--mutants",
        type=at_least_one,
        metavar="N",
        help="the first N mutants of the draw (default: all of it)",
    )
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="the file of results: what it holds is not judged again (default: a new one, "
        "audit_DEVICE.jsonl)",
    )
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        default=1,
        metavar="N",
        help="processes that check; on a GPU one process times (default: 1)",
    )
    parser.add_argument(
        "--seconds",
        type=at_least_one,
        default=240,
        metavar="S",
        help="CPU time for one kernel, after which it counts as a hang (default: 240)",
    )
    seed_flag(parser)
    parser.add_argument(
        "--zoo", metavar="FOLDER", help="the folder of the zoo (default: tests/zoo of a checkout)"
    )
    json_flag(parser)


def _new(commands: Commands) -> None:
    parser = add_command(
        commands,
        "new",
        "make a kernel task from a CUDA source",
        "Writes a draft of the task and lists what is left for you to decide.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the task's folder, which must not exist")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="KERNEL.cu", help="the CUDA source"
    )
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, if the source has several")
    json_flag(parser)


def _doctor(commands: Commands) -> None:
    parser = add_command(
        commands,
        "doctor",
        "try what is installed, and say what is missing",
        "Everything reported as working was tried just now, a model's server too where one is "
        "set up (three short calls).",
    )
    parser.add_argument("--model", metavar="NAME", help="the model to try")
    parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server to try")
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings")
    json_flag(parser)
