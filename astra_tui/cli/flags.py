"""Flags that several commands share."""

from __future__ import annotations

import os
import secrets

import click

from astra_tui.cli.click_command import OneOf, at_least_one, flag, positive_number, switch

MAX_SEED = (1 << 48) - 1
"""Seeds are whole numbers that every reader of JSON has exactly."""


def seed(text: str) -> int:
    """A seed, as a flag's type."""
    if not text.isdecimal() or int(text) > MAX_SEED:
        raise click.BadParameter(f"a seed is a whole number from 0 to {MAX_SEED}")
    return int(text)


def chosen_seed(given: int | None) -> int:
    """The seed that a flag gives, else $ASTRA_TUI_SEED, else one that no team can know."""
    if given is not None:
        return given
    configured = os.environ.get("ASTRA_TUI_SEED", "")
    return int(configured) if configured.isdecimal() else 1 + secrets.randbelow(MAX_SEED)


JSON = flag("--json", help="print one JSON object (docs/json.md)")
"""`--json`."""

PLAIN = flag(
    "--plain",
    is_flag=True,
    default=None,
    help="lines of text instead of the screen, for screen readers and dumb terminals",
)
"""`--plain`; None where it is not given, so that settings may say so."""

DEVICE = flag(
    "--device",
    metavar="DEVICE",
    default="auto",
    help="auto (default): the first GPU, else the emulator; or emulator, cuda, cuda:1",
)
"""`--device`, for a command that runs kernels."""

SEED = flag(
    "--seed",
    metavar="N",
    type=seed,
    help="what sizes, scalars and values are drawn from; by default drawn, and reported",
)
"""`--seed`, for a command that checks candidates."""

WORKERS = (
    flag(
        "--workers",
        metavar="N|local",
        help="N worker processes of this machine, or local: one for each of its GPUs",
    ),
    flag(
        "--scheduler",
        metavar="tls://HOST:PORT",
        help="the workers of a Dask cluster instead (docs/workers.md)",
    ),
)
"""`--workers` and `--scheduler`, for a command whose jobs can be done by many processes."""

SANITIZE = switch(
    "--sanitize",
    "run compute-sanitizer on what passed its check; what it finds is an error, and where it is "
    "not installed that is said",
)
"""`--sanitize`, for a command that checks candidates."""

RUN = (
    flag(
        "--team",
        type=OneOf(("llm", "llm-single", "playbook")),
        help="who works: a model in four roles, a model in one, or the playbook, which needs no "
        "model (default: llm where a model is set up, else playbook)",
    ),
    flag(
        "--device",
        metavar="DEVICE",
        help="auto (default): the first GPU, else the emulator; or emulator, cuda, cuda:1",
    ),
    flag("--rounds", metavar="N", type=at_least_one, help="rounds at most (default: 5)"),
    flag(
        "--candidates",
        metavar="K",
        type=at_least_one,
        help="plans that are tried in a round (default: 1)",
    ),
    flag(
        "--repairs",
        metavar="N",
        type=int,
        help="how often failed code goes back to be repaired (default: 2)",
    ),
    flag(
        "--reflections",
        metavar="N",
        type=int,
        help="how often code that is judged and not better goes back with its profile (default: 1)",
    ),
    flag(
        "--sweep",
        metavar="SHARE",
        type=float,
        help="share of the block sizes, packs and 'tune' values that is timed of every candidate "
        "that passed, on a GPU (default: 0.1; 0: none)",
    ),
    flag(
        "--search",
        type=OneOf(("greedy", "archive", "restarts")),
        help="what rounds stand on: the best (greedy, default), one drawn from all correct "
        "candidates (archive), or the best until nothing is gained, then an older one (restarts)",
    ),
    SANITIZE,
    switch(
        "--ncu", "read hardware counters of every best candidate with ncu, where that is permitted"
    ),
    flag(
        "--approve",
        metavar="ask|auto|FILE",
        help="who decides on plans and diffs: you (default), a policy, or a file of decisions "
        "(docs/approvals.md)",
    ),
    flag("--approve-plan", type=OneOf(("ask", "auto")), help="the same for plans alone"),
    flag("--approve-diff", type=OneOf(("ask", "auto")), help="the same for diffs alone"),
    flag(
        "--max-risk",
        type=OneOf(("low", "medium", "high")),
        help="the riskiest plan that auto accepts (default: high)",
    ),
    flag("--model", metavar="NAME", help="the model of team llm"),
    flag("--base-url", metavar="URL", help="an OpenAI-compatible server"),
    flag(
        "--effort",
        metavar="WORD",
        help="how hard the model thinks, in its server's words, such as low or high",
    ),
    flag(
        "--output-tokens",
        metavar="N",
        type=at_least_one,
        help="tokens of one answer at most, thoughts included (default: 16384)",
    ),
    flag("--temperature", metavar="X", type=float, help="the model's temperature, 0 to 2"),
    flag(
        "--tool-calls",
        metavar="N",
        type=int,
        help="uses of tools in one turn of an agent, such as compiling a draft (default: 12; 0: "
        "agents have no tools)",
    ),
    flag(
        "--tool-seconds",
        metavar="S",
        type=float,
        help="seconds that the tools of one turn may take (default: 180)",
    ),
    switch(
        "--drafts",
        "let agents time drafts on the GPU, before you have seen their code (otherwise drafts run "
        "on the emulator alone)",
    ),
    flag(
        "--role",
        "roles",
        metavar="ROLE.KEY=VALUE",
        multiple=True,
        help="how one role asks its model, such as coding.model=NAME or planning.effort=high; may "
        "be repeated (roles: planning, coding, testing, profiling; keys: model, effort, "
        "output_tokens, temperature, wire, silence_seconds, call_seconds)",
    ),
    flag(
        "--wire",
        type=OneOf(("auto", "responses", "chat")),
        help="OpenAI's responses or chat API (default: what the server understands)",
    ),
    flag(
        "--call-seconds",
        metavar="S",
        type=positive_number,
        help="seconds that a call of the model may take (default: 900)",
    ),
    flag(
        "--silence-seconds",
        metavar="S",
        type=positive_number,
        help="seconds between two bytes of an answer (default: 180)",
    ),
    flag("--budget-tokens", metavar="N", type=int, help="tokens that the model may cost"),
    flag("--budget-dollars", metavar="X", type=float, help="dollars that the model may cost"),
    flag("--budget-calls", metavar="N", type=int, help="calls of the model at most"),
    flag(
        "--budget-gpu-seconds", metavar="S", type=float, help="seconds of timing and of ncu at most"
    ),
    flag("--title", metavar="TEXT", help="what the session is called in lists"),
    flag(
        "--roofline",
        metavar="SHARE",
        type=float,
        help="stop at this share of a copy's speed on every workload (default: 0.98; 0: never)",
    ),
    flag("--config", metavar="FILE", help="a TOML file of settings"),
    flag(
        "--linger-seconds",
        metavar="X",
        type=float,
        help="how long an engine without a client waits for a decision (default: 3600)",
    ),
    flag("--headless", help="never ask at the terminal; exit code 5 instead"),
    PLAIN,
    JSON,
)
"""What a run, new or old, may be told."""

WINNER = flag(
    "--candidate",
    metavar="HASH",
    default="best",
    help="the beginning of a candidate's hash, or a kind of GPU, such as 'NVIDIA H100', for the "
    "winner there (default: best, which the session ended with)",
)
NO_CHECK = flag("--no-check", help="only write it")

SESSION_TASK = (
    flag("--task", metavar="TASK", help="the session's task, where it has no name on this machine"),
    flag(
        "--trust", help="run code, and use addresses, that only the session names: it is your own"
    ),
)
"""Where the task of a saved session is, and whether its own code may run."""
