"""`astra-tui audit`: what the gate says of kernels that are known to be wrong or right."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.answers import AuditAnswer
from astra_tui.cli.devices import open_compiler
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import chosen_seed
from astra_tui.model.audit import AuditHead, AuditRecord, summarise
from astra_tui.model.errors import UserError
from astra_tui.model.task.locate import bundled


def run(options: argparse.Namespace) -> int:
    """Judges what the results lack, and sums all of them up; 1 if any speaks against the gate."""
    from astra_tui.lab.audit.running import Results, items_of, run_audit, select
    from astra_tui.lab.audit.zoo import read_zoo

    zoo = read_zoo(_zoo_folder(options.zoo))
    items = select(items_of(zoo, options.mutants), options.kind, options.only)
    head = _head(options.device, options.seed)
    results = Results(_results_file(options.resume, head), head)
    waiting = sum(map(results.lacks, items))
    plain.note(f"{len(items)} kernels, {waiting} of them to be judged; results: {results.file}")
    with plain.progress("audit", waiting) as advance:

        def done(record: AuditRecord) -> None:
            advance()
            if record.fails:
                plain.note(f"{record.id}: {record.outcome}: {record.message}")

        run_audit(
            zoo, items, results, head.device, jobs=options.jobs, seconds=options.seconds, done=done
        )
    summary = summarise(results.head, _command(options), results.of(items))
    code = ExitCode.FAILED if summary.failures else ExitCode.OK
    if options.json:
        plain.print_json(AuditAnswer(int(code), summary, tuple(results.of(items))))
    else:
        plain.print_audit(summary, {r.id: r.message for r in results.of(items) if r.fails})
    return code


def _zoo_folder(named: str | None) -> Path:
    """The folder that was named, else the one of the checkout that we are in, or come from."""
    if named:
        return Path(named)
    here = Path("tests") / "zoo"
    return here if here.is_dir() else bundled("tests") / "zoo"


def _head(device: str, seed: int | None) -> AuditHead:
    """Raises UserError for a device that is not there."""
    from astra_tui.lab.audit.running import head_of
    from astra_tui.lab.devices import choose_device

    with open_compiler() as compiler:
        return head_of(choose_device(device).name, str(compiler.start()), chosen_seed(seed))


def _results_file(resumed: str | None, head: AuditHead) -> Path:
    if resumed:
        return Path(resumed)
    file = Path(f"audit_{head.device.replace(':', '')}.jsonl")
    if file.exists():
        raise UserError(
            "there are results of an audit already",
            file=str(file),
            hint=f"go on with --resume {file}, or move it away",
        )
    return file


def _command(options: argparse.Namespace) -> str:
    """The command, without what does not change its results."""
    words = ["astra-tui", "audit", "--device", options.device]
    for flag, values in (("--kind", options.kind), ("--only", options.only)):
        for value in values:
            words += [flag, value]
    if options.mutants is not None:
        words += ["--mutants", str(options.mutants)]
    return shlex.join(words)
