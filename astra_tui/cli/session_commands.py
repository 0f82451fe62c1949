"""The commands over saved sessions and running engines, with their flags and help."""

from __future__ import annotations

from astra_tui.cli.flags import (
    Commands,
    add_command,
    device_flag,
    json_flag,
    plain_flag,
    run_flags,
)
from astra_tui.cli.parsing import (
    CommandParser,
    positive_number,
    replay_speed,
    whole_number,
)
from astra_tui.model.plan import Counter


def session_commands(commands: Commands) -> None:
    """Adds them."""
    _sessions(commands)
    _replay(commands)
    _resume(commands)
    _fork(commands)
    _compare(commands)
    _verify(commands)
    _bisect(commands)
    _report(commands)
    _export(commands)
    _sign(commands)
    _pack(commands)
    _attach(commands)
    _ps(commands)
    _stop(commands)


def _sessions(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sessions",
        "list sessions",
        "Each is listed with what came of it; what is damaged in a journal is said on stderr.",
    )
    parser.add_argument("--sessions", metavar="DIR", help="where they are (default: ./sessions)")
    json_flag(parser)


def _sign(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sign",
        "sign a session with your key",
        "Ed25519 over all of the journal, which names every text by its hash; the signature goes "
        "into the session's folder, and verify shows whose it is. It needs the package "
        "cryptography; make a key with: ssh-keygen -t ed25519 -N '' -f FILE",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's name or folder")
    parser.add_argument("--key", required=True, metavar="FILE", help="your private key")
    parser.add_argument("--sessions", metavar="DIR", help="where sessions are (./sessions)")


def _pack(commands: Commands) -> None:
    parser = add_command(
        commands,
        "pack",
        "compress the journal of a session that is over",
        "The journal becomes journal.jsonl.gz, a fifth of the size. A packed session is shown, "
        "verified, compared and branched off as before; gunzip makes it one that can go on.",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's name or folder")
    parser.add_argument("--sessions", metavar="DIR", help="where sessions are (./sessions)")


def _report(commands: Commands) -> None:
    parser = add_command(
        commands,
        "report",
        "write what came of a session, as a page and as text",
        "One HTML file that needs nothing else, and one Markdown file, both named after the "
        "session. They are made from its journal and sources alone, without GPU, key or task; "
        "the session is only read (docs/reports.md).",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's name or folder")
    parser.add_argument(
        "--out", default=".", metavar="DIR", help="where the files go (default: here)"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--html-only", action="store_true", help="write the HTML file alone")
    kinds.add_argument("--markdown-only", action="store_true", help="write the Markdown file alone")
    parser.add_argument(
        "--sessions", metavar="DIR", help="where names are looked up (default: ./sessions)"
    )
    json_flag(parser)


def _replay(commands: Commands) -> None:
    parser = add_command(
        commands,
        "replay",
        "show a saved session again",
        "It needs neither a GPU nor a model nor the task. In lines, the journal is folded again, "
        "and at the end compared with the digest that the engine wrote. Without SESSION, all "
        "sessions are listed, those that come with the program too.",
    )
    _session(parser, "a session's name or folder")
    parser.add_argument(
        "--headless", action="store_true", help="print the lines of the run instead of the screen"
    )
    parser.add_argument(
        "--speed",
        type=replay_speed,
        metavar="X",
        help="play so many times as fast as it happened: 0.5 to 100, or instant; no event is "
        "waited for longer than 2 s (default: lines at once; the screen shows the end)",
    )
    parser.add_argument(
        "--to",
        type=whole_number,
        metavar="SEQ",
        help="stop behind this event, by its number in the journal",
    )
    plain_flag(parser)
    json_flag(parser)


def _resume(commands: Commands) -> None:
    parser = add_command(
        commands,
        "resume",
        "go on with a session",
        "However it ended, on this machine or another. What differs from when it ran is said "
        "first. Settings that are not given are those of the session; --rounds counts all its "
        "rounds.",
    )
    _session(parser, "a session's name or folder; by default the one written last")
    _task_flags(parser)
    run_flags(parser)


def _fork(commands: Commands) -> None:
    parser = add_command(
        commands,
        "fork",
        "begin a new session with the past of another",
        "The new session holds all that happened up to the place, and runs on from there; the "
        "other one stays as it is. docs/sessions.md names the places.",
    )
    parser.add_argument("parent", metavar="SESSION", help="the other session's name or folder")
    parser.add_argument(
        "--at",
        required=True,
        metavar="PLACE",
        help="behind a round (r3), before a decision (3.0.plan), or behind a candidate's round "
        "with the candidate as the best (its hash)",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="your plan, as JSON or TOML: the fields that change at a plan's decision, else a "
        "whole plan for the next round",
    )
    parser.add_argument("--note", metavar="TEXT", help="what the team should know")
    parser.add_argument("--session", metavar="DIR", help="the new session's folder")
    parser.add_argument(
        "--sessions", metavar="DIR", help="where sessions are (default: ./sessions)"
    )
    parser.add_argument(
        "--no-run", action="store_true", help="write the branch; it goes on with: resume"
    )
    _task_flags(parser)
    run_flags(parser)


def _verify(commands: Commands) -> None:
    parser = add_command(
        commands,
        "verify",
        "check a saved session, and try its accepted candidates again",
        "Every line, text and digest of the session is looked at first. Then each accepted "
        "candidate is compiled, checked, counted and, on a GPU, timed again from the stored "
        "source, on the task of this machine that has the same hash. Exit code 1 where anything "
        "was altered or disagrees. Of an exported file it is checked whether its header, figures "
        "and text are what its session makes.",
    )
    _session(
        parser, "a session's name or folder, by default the one written last; or an exported file"
    )
    parser.add_argument(
        "--signer",
        metavar="FILE",
        help="public keys, one a line: the session has to be signed with one of them",
    )
    parser.add_argument(
        "--against",
        metavar="SESSION",
        help="the session of an exported file, where it has not the name that the file says",
    )
    _task_flags(parser)
    device_flag(parser)
    json_flag(parser)


def _compare(commands: Commands) -> None:
    parser = add_command(
        commands,
        "compare",
        "show two sessions or candidates beside each other",
        "Plans, checks, counters, verdicts, times and the diff of the sources, on the screen or "
        "in lines. Where there is a GPU and both ran on the same task, the two are timed beside "
        "each other: in lines at once, on the screen with a key.",
    )
    parser.add_argument(
        "first",
        metavar="A",
        help="a session, for its best candidate; or SESSION:HASH, or SESSION:r3",
    )
    parser.add_argument("second", metavar="B", help="the other one")
    parser.add_argument("--sessions", metavar="DIR", help="where they are (default: ./sessions)")
    _task_flags(parser)
    device_flag(parser)
    plain_flag(parser)
    json_flag(parser)


def _bisect(commands: Commands) -> None:
    parser = add_command(
        commands,
        "bisect",
        "find the round that brought a loss",
        "Tries accepted candidates from their stored sources, halving what is left each time. "
        "Exit code 1 where the last one has no such loss, or the first has it already.",
    )
    _session(parser, "a session's name or folder; by default the one written last")
    parser.add_argument(
        "--error",
        type=positive_number,
        metavar="BOUND",
        help="the loss: an output's error above this share of what is allowed, such as 0.6",
    )
    parser.add_argument(
        "--slower",
        metavar="WORKLOAD",
        help="the loss: this workload is slower than with the first candidate",
    )
    parser.add_argument(
        "--by",
        type=positive_number,
        metavar="PERCENT",
        help="by more than this (default: by what the timing's verdict calls slower; for a "
        "counter by anything)",
    )
    parser.add_argument(
        "--counter",
        choices=[c.value for c in Counter],
        metavar="NAME",
        help="what the emulator counts of the workload, in the place of its time",
    )
    parser.add_argument(
        "--good", metavar="ROUND", help="the first candidate is of this round (default: baseline)"
    )
    parser.add_argument(
        "--bad", metavar="ROUND", help="the last candidate is of this round (default: the best)"
    )
    _task_flags(parser)
    device_flag(parser)
    json_flag(parser)


def _export(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        "take the winner out of a session",
        "As its source, as a patch, as CUDA C++ with a launcher, as a PyTorch operator, or as a "
        "TVM-FFI module. It is compiled and checked against the task's reference first, with what "
        "this machine has, and the answer says what was checked where (docs/export.md).",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's name or folder")
    parser.add_argument(
        "--to",
        dest="format",
        required=True,
        choices=("cu", "patch", "cpp", "torch", "tvm-ffi"),
        help="the form",
    )
    parser.add_argument(
        "--candidate",
        default="best",
        metavar="HASH",
        help="the beginning of a candidate's hash (default: best, which the session ended with)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="a new folder (default: TASK-FORMAT in the current one)"
    )
    parser.add_argument("--no-check", action="store_true", help="only write it")
    parser.add_argument(
        "--allow-altered",
        action="store_true",
        help="export from a session that was altered; every file says so",
    )
    parser.add_argument("--sessions", metavar="DIR", help="where they are (default: ./sessions)")
    _task_flags(parser)
    device_flag(parser)
    json_flag(parser)


def _session(parser: CommandParser, text: str) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help=text)
    parser.add_argument("--sessions", metavar="DIR", help="where they are (default: ./sessions)")


def _task_flags(parser: CommandParser) -> None:
    parser.add_argument(
        "--task", metavar="TASK", help="the session's task, where it has no name on this machine"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code, and use addresses, that only the session names: it is your own",
    )


def _attach(commands: Commands) -> None:
    parser = add_command(
        commands,
        "attach",
        "come back to a running engine",
        "Shows what has happened and what happens, and asks you what is to be decided. Ctrl-C "
        "cancels the run; to leave it running, detach at a question or close the terminal. "
        "Without a terminal to ask at, it only shows.",
    )
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="a session's name or folder; by default the only one that runs",
    )
    plain_flag(parser)


def _ps(commands: Commands) -> None:
    parser = add_command(
        commands,
        "ps",
        "list the engines that run now",
        "Every engine of this user on this machine is asked; sockets of dead ones are removed.",
    )
    json_flag(parser)


def _stop(commands: Commands) -> None:
    parser = add_command(
        commands,
        "stop",
        "end a running engine",
        "Asks the engine to end and waits until it has. The session can be resumed.",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's name or folder")
    parser.add_argument("--all", action="store_true", help="end every engine that runs")
