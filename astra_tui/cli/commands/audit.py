"""`astra-tui audit`: what the gate says of kernels that are known to be wrong or right."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, at_least_one, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON, SEED, WORKERS, chosen_seed
from astra_tui.model.audit import AuditHead, AuditRecord, summarise
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.lab.devices import DeviceChoice


@command(
    "put the gate to the proof with kernels that are known to be wrong or right",
    "Planted wrong kernels and mutants have to be caught, honest ones have to pass. They lie in "
    "a checkout, under tests/zoo. On a GPU what passes its check is timed as well. Results are "
    "kept line by line, and an audit that was stopped continues with --resume.",
    flag(
        "--device",
        metavar="DEVICE",
        default="emulator",
        help="emulator (default), cuda, cuda:1, or auto: the first GPU, else the emulator",
    ),
    flag(
        "--kind",
        metavar="KIND",
        multiple=True,
        help="only planted, honest or mutant, or one kind such as 'races'; may be repeated",
    ),
    flag(
        "--only",
        metavar="GLOB",
        multiple=True,
        help="only kernels whose names match, such as 'silu-*'; may be repeated",
    ),
    flag(
        "--mutants",
        metavar="N",
        type=at_least_one,
        help="the first N mutants of the draw (default: all of it)",
    ),
    flag(
        "--resume",
        metavar="FILE",
        help="the file of results: what it holds is not judged again (default: a new one, "
        "audit_DEVICE.jsonl)",
    ),
    flag(
        "--jobs",
        metavar="N",
        type=at_least_one,
        default=1,
        help="processes that check; on a GPU one process times (default: 1)",
    ),
    flag(
        "--seconds",
        metavar="S",
        type=at_least_one,
        default=240,
        help="CPU time for one kernel, after which it counts as a hang (default: 240)",
    ),
    *WORKERS,
    SEED,
    flag(
        "--zoo", metavar="FOLDER", help="the folder of the zoo (default: tests/zoo of a checkout)"
    ),
    JSON,
    example="astra-tui audit --kind races --only 'rms-*'",
)
def run(options: Options) -> int:
    """Judges what the results lack, and sums all of them up; 1 if any speaks against the gate."""
    from astra_tui.cli.devices import asked_workers, choose_device
    from astra_tui.cli.json_answers import AuditAnswer
    from astra_tui.lab.audit.running import Results, items_of, run_audit, select
    from astra_tui.lab.audit.zoo import read_zoo
    from astra_tui.present.outcomes import audit_blocks

    zoo = read_zoo(_zoo_folder(options.zoo))
    items = select(items_of(zoo, options.mutants), options.kind, options.only)
    with asked_workers(options) as workers:
        device = choose_device(options.device, workers)
        head = _head(device, options.seed)
        file = _results_file(options.resume, head)
        results = Results(file, head)  # A file begins once someone is there to fill it.
        waiting = sum(map(results.lacks, items))
        plain.note(f"{len(items)} kernels, {waiting} of them to be judged; results: {results.file}")
        with plain.progress("audit", waiting) as advance:

            def done(record: AuditRecord) -> None:
                advance()
                if record.fails:
                    plain.note(f"{record.id}: {record.outcome}: {record.message}")

            judge = partial(
                run_audit, zoo, items, results, head.device, seconds=options.seconds, done=done
            )
            if workers is None:
                judge(jobs=options.jobs)
            else:
                able = workers.of_kind(device.kind)
                judge(jobs=able.slots, timers=able.gpus, start=able.start)
    summary = summarise(results.head, _command(options), results.of(items))
    code = ExitCode.FAILED if summary.failures else ExitCode.OK
    records = tuple(results.of(items))
    messages = {r.id: r.message for r in records if r.fails}
    answer = AuditAnswer(int(code), summary, records)
    plain.print_answer(answer, options.json, lambda: audit_blocks(summary, messages))
    return code


def _zoo_folder(named: str | None) -> Path:
    """The folder that was named, else the one of the checkout that we are in, or come from."""
    from astra_tui.model.task_folders import bundled

    if named:
        return Path(named)
    here = Path("tests") / "zoo"
    return here if here.is_dir() else bundled("tests") / "zoo"


def _head(device: DeviceChoice, seed: int | None) -> AuditHead:
    from astra_tui.cli.devices import open_compiler
    from astra_tui.lab.audit.running import head_of

    with open_compiler() as compiler:
        return head_of(device.name, compiler.identify(), chosen_seed(seed))


def _results_file(resumed: str | None, head: AuditHead) -> Path:
    if resumed:
        return Path(resumed)
    file = Path(f"audit_{head.device.replace(':', '')}.jsonl")
    if file.exists():
        raise UserError(
            "there are results of an audit already",
            file=str(file),
            hint=f"continue with --resume {file}, or move it away",
        )
    return file


def _command(options: Options) -> str:
    """The command, without what does not change its results."""
    words = ["astra-tui", "audit", "--device", options.device]
    for name, values in (("--kind", options.kind), ("--only", options.only)):
        for value in values:
            words += [name, value]
    if options.mutants is not None:
        words += ["--mutants", str(options.mutants)]
    return shlex.join(words)
