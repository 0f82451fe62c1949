"""`astra-tui verify`: is a session what its engine wrote, and does it hold on this machine?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode, UnavailableHere
from astra_tui.cli.flags import DEVICE, JSON, SESSION_TASK, WORKERS, chosen_seed
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import VerifyAnswer
    from astra_tui.export import ExportStep, Header
    from astra_tui.model.state import SessionState
    from astra_tui.model.task import KernelTask
    from astra_tui.model.verification import CandidateVerification
    from astra_tui.sessions.integrity import Session
    from astra_tui.sessions.signing import Signed
    from astra_tui.workers import Workers


_ALTERED = "the session is not what its engine wrote, and nothing of it was run"
_CUT = "the session has no end, and nothing of it was run; resume it: astra-tui resume"


@command(
    "check a saved session, and try its accepted candidates again",
    "Every line, text and digest of the session is looked at first. Then each accepted "
    "candidate is compiled, checked, counted and, on a GPU, timed again from the stored source, "
    "on the task of this machine that has the same hash. Exit code 1 where anything was altered "
    "or disagrees. Of an exported file it is checked whether its header, figures and text are "
    "what its session makes.",
    argument(
        "session",
        "SESSION",
        "a session's name or folder, by default the one written last; or an exported file",
        required=False,
    ),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    flag(
        "--signer",
        metavar="FILE",
        help="public keys, one a line: the session has to be signed with one of them",
    ),
    flag(
        "--against",
        metavar="SESSION",
        help="the session of an exported file, where it has not the name that the file says",
    ),
    *SESSION_TASK,
    DEVICE,
    *WORKERS,
    JSON,
    example="astra-tui verify h100-pair-silu --device emulator",
)
def run(options: Options) -> int:
    """Integrity first; what was altered is not run. Exit code 1 where anything disagrees."""
    from astra_tui.cli.json_answers import VerifyAnswer
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.present.outcomes import integrity_blocks
    from astra_tui.sessions.integrity import read_session
    from astra_tui.sessions.journal_lines import JOURNAL_NAME
    from astra_tui.sessions.journal_reader import PACKED_NAME

    file = Path(options.session or "")
    if file.is_file() and file.name not in (JOURNAL_NAME, PACKED_NAME):
        return _verify_file(file, options)
    folder = saved_session(options.session, options.sessions)
    session = read_session(folder)
    integrity, state = session.integrity, session.timeline.final_state()
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
        signed=None,
    )
    signed, problem = _signature(session, options)
    answer = replace(answer, signed=signed)
    if not options.json:
        plain.print_blocks(integrity_blocks(integrity, signed))
        for flaw in integrity.flaws:
            plain.note(flaw.describe())
    if problem:
        answer = replace(answer, message=problem)
    elif integrity.whole:
        answer = _try_again(answer, options, session)
    if options.json:
        plain.print_json(answer)
    else:
        plain.note(answer.message)
    return answer.exit_code


def _signature(session: Session, options: Options) -> tuple[Signed | None, str]:
    """Whose signature the session has, and why that does not do; "" where it does."""
    from astra_tui.sessions.signing import signature_of

    keys = read_user_file(Path(options.signer), "file of public keys") if options.signer else b""
    try:
        signed = signature_of(session, keys)
    except UserError as error:
        if options.signer:
            raise
        plain.note(f"the signature was not checked: {error.describe()}")
        return None, ""
    if signed is None:
        return None, "the session is not signed" if options.signer else ""
    if signed.problem:
        return signed, f"the signature does not hold: {signed.problem}"
    if options.signer and not signed.trusted:
        return signed, f"it is signed by another key: {signed.fingerprint}"
    return signed, ""


def _verify_file(file: Path, options: Options) -> int:
    """Whether an exported file is what its session makes; exit code 1 where it is not."""
    from astra_tui.cli.json_answers import VerifyFileAnswer
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.export import GENERATED, StepOutcome, check_origin, read_header
    from astra_tui.present.outcomes import steps_blocks
    from astra_tui.sessions.integrity import read_session

    try:
        text = read_user_file(file).decode()
    except UnicodeDecodeError:
        raise UserError("this is no text in UTF-8", file=str(file)) from None
    header = read_header(text, str(file))
    folder = saved_session(options.against or Path(header.session).name, options.sessions)
    session = read_session(folder)
    steps = list(check_origin(text, header, session))
    if steps[-1].detail == GENERATED:
        steps[-1] = _generated_text(file, text, header, session, options)
    wrong = next((s for s in steps if s.outcome is StepOutcome.FAILED), None)
    unsure = next((s for s in steps if s.outcome is StepOutcome.NOT_CHECKED), None)
    message = "the file is what its session makes"
    if wrong is not None:
        message = f"the file is not what its session makes: {wrong.name}"
    elif unsure is not None:
        message = f"the header is the session's; the rest was not checked: {unsure.detail}"
    code = ExitCode.FAILED if wrong else ExitCode.INCONCLUSIVE if unsure else ExitCode.OK
    answer = VerifyFileAnswer(
        int(code), str(file), folder.name, str(folder), header.candidate, session.trust,
        tuple(steps), message,
    )  # fmt: skip
    plain.print_answer(answer, options.json, lambda: steps_blocks(steps))
    if not options.json:
        plain.note(message)
    return code


def _generated_text(
    file: Path, text: str, header: Header, session: Session, options: Options
) -> ExportStep:
    """The same file, exported again: launchers and packages need the kernels compiled."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.cli.session_lookup import local_task
    from astra_tui.export import (
        ExportStep,
        StepOutcome,
        compare_text,
        find_winner,
        made_by_another_version,
    )
    from astra_tui.export.exporting import open_exporter

    if other := made_by_another_version(header):
        return ExportStep("text", StepOutcome.NOT_CHECKED, other)
    then = session.ending_at(header.seal)
    assert then is not None
    winner = find_winner(then, header.candidate)
    try:
        _, task = local_task(then.state, session.folder, options.task, trust=options.trust)
        with open_compiler(task) as compiler, open_exporter(task, EMULATOR, compiler) as exporter:
            files = exporter.files(winner, header.format)
    except UserError as error:
        return ExportStep("text", StepOutcome.NOT_CHECKED, error.message)
    made = {Path(name).name: content for name, content in files.items()}.get(file.name)
    if not isinstance(made, str):
        return ExportStep("text", StepOutcome.FAILED, f"an export has no file {file.name}")
    return compare_text(text, made)


def _try_again(answer: VerifyAnswer, options: Options, session: Session) -> VerifyAnswer:
    import asyncio

    from astra_tui.cli.devices import asked_workers, choose_device, fetch_upstream
    from astra_tui.cli.session_lookup import local_task
    from astra_tui.engine.environment import current_environment
    from astra_tui.model.environment import differences
    from astra_tui.present.outcomes import differences_blocks, verification_words
    from astra_tui.sessions.engines import last_environment

    folder, state = session.folder, session.state
    named, task = local_task(state, folder, options.task, trust=options.trust)
    fetch_upstream(task)
    recorded = last_environment(session)
    with asked_workers(options) as workers:
        device = choose_device(options.device, workers)
        here = current_environment(device)
        different = differences(recorded, here)
        if not options.json:
            plain.print_blocks(differences_blocks(different))
        workers = workers.of_kind(device.kind) if workers is not None else None
        parts = folder, state, task, here.device, workers
        candidates = asyncio.run(_verify(*parts, quiet=options.json))
    wrong = [c for c in candidates if not c.agrees]
    return replace(
        answer,
        exit_code=int(ExitCode.FAILED if wrong else ExitCode.OK),
        task=named,
        recorded=recorded,
        here=here,
        differences=different,
        candidates=candidates,
        message=verification_words(candidates),
    )


async def _verify(
    folder: Path,
    state: SessionState,
    task: KernelTask,
    device: str,
    workers: Workers | None,
    *,
    quiet: bool,
) -> tuple[CandidateVerification, ...]:
    from astra_tui.engine.lab import Lab, LabFailed
    from astra_tui.engine.verify import Verifier
    from astra_tui.present.outcomes import verification_blocks
    from astra_tui.sessions.folder import read_blob

    lab, done = Lab(task, device, workers=workers), []
    try:
        at_once = workers.slots if workers is not None else 1
        parts = lab, chosen_seed(None), at_once
        verifier = Verifier(state, lambda h: read_blob(folder, h), *parts)
        async for verified in verifier.run():
            done.append(verified)
            if not quiet:
                plain.print_blocks(verification_blocks(verified))
    except LabFailed as error:
        raise UnavailableHere(str(error), hint="see: astra-tui doctor") from None
    finally:
        lab.close()
    return tuple(done)
