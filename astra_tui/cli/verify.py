"""`astra-tui verify`: is a session what its engine wrote, and does it hold on this machine?"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.answers import VerifyAnswer
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.failures import UnavailableHere
from astra_tui.cli.saved import local_task, saved_session
from astra_tui.model.environment import differences
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.verification import CandidateVerification
from astra_tui.session.blobs import read_blob
from astra_tui.session.integrity import check_integrity
from astra_tui.session.machine import last_environment

_ALTERED = "the session is not what its engine wrote, and nothing of it was run"
_CUT = "the session has no end, and nothing of it was run; go on with it: astra-tui resume"


def run(options: argparse.Namespace) -> int:
    """Integrity first; what was altered is not run. Exit code 1 where anything disagrees."""
    from astra_tui.plain.verify import print_integrity

    folder = saved_session(options.session, options.sessions)
    integrity, state = check_integrity(folder)
    if not options.json:
        print_integrity(integrity)
    answer = VerifyAnswer(
        exit_code=int(ExitCode.FAILED),
        session=state.opened.session if state.opened else folder.name,
        folder=str(folder),
        integrity=integrity,
        task="",
        task_hash=state.opened.task_hash if state.opened else "",
        recorded=None,
        here=None,
        differences=(),
        candidates=(),
        message=_ALTERED if integrity.altered else _CUT,
    )
    if integrity.whole:
        answer = _try_again(answer, options, folder, state)
    if options.json:
        plain.print_json(answer)
    else:
        plain.note(answer.message)
    return answer.exit_code


def _try_again(
    answer: VerifyAnswer, options: argparse.Namespace, folder: Path, state: SessionState
) -> VerifyAnswer:
    from astra_tui.engine.environment import environment_here
    from astra_tui.plain.verify import print_differences

    named, task = local_task(state, folder, options.task, trust=options.trust)
    recorded = last_environment(folder)
    here = environment_here(options.device)
    different = differences(recorded, here)
    if not options.json:
        print_differences(different)
    candidates = asyncio.run(_verify(folder, state, task, here.device, quiet=options.json))
    wrong = [c for c in candidates if not c.agrees]
    return replace(
        answer,
        exit_code=int(ExitCode.FAILED if wrong else ExitCode.OK),
        task=named,
        recorded=recorded,
        here=here,
        differences=different,
        candidates=candidates,
        message=_summary(candidates),
    )


async def _verify(
    folder: Path, state: SessionState, task: KernelTask, device: str, *, quiet: bool
) -> tuple[CandidateVerification, ...]:
    from astra_tui.engine.lab import Lab, LabTrouble
    from astra_tui.engine.verify import Verifier
    from astra_tui.plain.verify import print_candidate

    lab, done = Lab(task, device), []
    try:
        async for verified in Verifier(state, lambda h: read_blob(folder, h), lab).run():
            done.append(verified)
            if not quiet:
                print_candidate(verified)
    except LabTrouble as error:
        raise UnavailableHere(str(error), hint="see: astra-tui doctor") from None
    finally:
        lab.close()
    return tuple(done)


def _summary(candidates: tuple[CandidateVerification, ...]) -> str:
    wrong = [c for c in candidates if not c.agrees]
    if wrong:
        names = ", ".join(c.candidate[:12] for c in wrong)
        return f"{len(wrong)} of {len(candidates)} accepted candidates disagree: {names}"
    text = f"all {len(candidates)} accepted candidates are as recorded"
    untimed = sum(t.measured is None for c in candidates for t in c.timings)
    uncounted = sum(bool(c.notes) for c in candidates)
    text += f"; {untimed} timings were not taken here" if untimed else ""
    return text + (f"; counters of {uncounted} could not be compared" if uncounted else "")
