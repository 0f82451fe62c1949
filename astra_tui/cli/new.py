"""`astra-tui new`: a kernel task from someone's CUDA source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from astra_tui import plain
from astra_tui.cli.check import read_text
from astra_tui.cli.command import Options, argument, command, flag, switch
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cuda_source.translation import Translation
    from astra_tui.drafting import Draft
    from astra_tui.drafting.answers import Answers


@command(
    "make a kernel task from a CUDA source",
    "Writes a draft of the task and lists what is left for you to decide.",
    argument("folder", "FOLDER", "the task's folder, which must not exist"),
    flag("--from", "source", metavar="KERNEL.cu", help="the CUDA source"),
    flag("--kernel", metavar="NAME", help="which kernel, if the source has several"),
    flag("-I", "--include", metavar="DIR", multiple=True, help="where its headers are"),
    flag("-D", "--define", metavar="NAME[=VALUE]", multiple=True, help="a macro to define"),
    flag("--answers", metavar="FILE", help="what the source does not say (docs/kernel-task.md)"),
    switch("--whole", "include the source as it is, instead of taking the kernel out of it"),
    switch("--ask", "ask for each open point; Enter leaves it as it is drafted"),
    JSON,
)
def run(options: Options) -> int:
    """Writes the draft, compiles it, and lists what is left to decide."""
    from astra_tui.drafting import draft_task
    from astra_tui.model.dtypes import DType
    from astra_tui.model.task import NAME_RULE, is_task_name
    from astra_tui.plain.drafts import print_draft

    folder, answers = Path(options.folder), _answers(options)
    if not answers.source:
        raise UserError("no source is named", hint="say --from KERNEL.cu, or from = in --answers")
    source = Path(answers.source)
    if folder.exists():
        raise UserError("this folder exists already; name a new one", file=str(folder))
    name = folder.resolve().name
    if not is_task_name(name):
        raise UserError(
            f"{name!r} is not a valid task name", file=str(folder), hint=f"it is {NAME_RULE}"
        )
    translation = _read(source, answers.include, answers.define)
    draft = draft_task(name, translation, answers=answers)
    if options.ask:
        answers, draft = _ask(answers, lambda given: draft_task(name, translation, answers=given))
    files = _files(draft, source, answers)
    _write(folder, files)
    problems = _try_it(folder)
    if problems:
        # Half of what frameworks ship is for 16-bit types alone, and a few kernels for float alone.
        other = draft_task(name, translation, None, (DType.FLOAT32,), answers)
        other_files = _files(other, source, answers)
        if other_files != files:
            _rewrite(folder, other_files)
            if _try_it(folder):
                _rewrite(folder, files)
            else:
                draft, files, problems = other, other_files, []
    open_points = draft.open_points
    if options.json:
        plain.print_json(
            {
                "folder": str(folder),
                "files": sorted(files),
                "open_points": [{"text": p.text, "key": p.key} for p in open_points],
                "answered": list(answers.keys()),
                "problems": problems,
            }
        )
    else:
        print_draft(folder, sorted(files), [str(p) for p in open_points], problems)
    return ExitCode.OK


def _answers(options: Options) -> Answers:
    """The answers file with the flags, which come before it."""
    from astra_tui.drafting.answers import NO_ANSWERS, read_answers

    answers = NO_ANSWERS
    if options.answers:
        file = Path(options.answers)
        answers = read_answers(read_text(file), str(file)).beside(file.parent)
    return msgspec.structs.replace(
        answers,
        source=options.source or answers.source,
        kernel=options.kernel or answers.kernel,
        include=(*options.include, *answers.include),
        whole=bool(options.whole) or answers.whole,
        define=(*options.define, *answers.define),
    )


def _ask(answers: Answers, drafted: Callable[[Answers], Draft]) -> tuple[Answers, Draft]:
    """Asks for each open point in turn, also for those that an answer brings up."""
    asked: set[str] = set()
    draft = drafted(answers)
    while point := next((p for p in draft.open_points if p.key and p.key not in asked), None):
        asked.add(point.key)
        click.echo(f"\n{plain.visible(point.text)}", err=True)
        text = click.prompt(point.key, default="", show_default=False, err=True)
        try:
            if text:
                answers = answers.with_answer(point.key, text)
                draft = drafted(answers)
        except UserError as error:
            click.echo(error.describe(), err=True)
            asked.discard(point.key)
    return answers, draft


def _read(source: Path, roots: Sequence[str], defines: Sequence[str]) -> Translation:
    """The source with what it includes from `roots`."""
    from astra_tui.cuda_source.clang import read_translation
    from astra_tui.lab.compiler.toolchain import find_toolchain

    data = read_user_file(source, ".cu file")
    if b"\0" in data:
        raise UserError(
            "this is no text in UTF-8: it holds zero bytes",
            file=str(source),
            hint="save it as UTF-8 first",
        )
    for root in roots:
        if not Path(root).is_dir():
            raise UserError("-I names no folder", file=root)
    toolchain = find_toolchain()
    return read_translation(source, [Path(r) for r in roots], toolchain.include_dirs, defines)


def _files(draft: Draft, source: Path, answers: Answers) -> dict[str, str | bytes]:
    """The draft's files, the answers, and the headers that it includes with their origin."""
    from astra_tui.model.task import upstream_files

    files = {**draft.files, "answers.toml": answers.text()}
    if not draft.upstream:
        return dict(files)
    headers = upstream_files(
        {name: Path(path).read_bytes() for name, path in draft.upstream.items()},
        include=(".",),
        origin=f"headers of {source}",
        licence="see the headers",
        defines=answers.define,
    )
    return {**files, **headers}


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(f"cannot be written: {error}", file=str(folder)) from None


def _rewrite(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes another draft in place of the one that was just written."""
    shutil.rmtree(folder)
    _write(folder, files)


def _try_it(folder: Path) -> list[str]:
    """Loads the draft and compiles its baseline; what does not work yet, in words."""
    from astra_tui.lab.check.execution import read_source
    from astra_tui.lab.check.kernels import kernels_to_compile
    from astra_tui.lab.check.suite import build_suite
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable
    from astra_tui.lab.upstream import task_headers
    from astra_tui.model.task import load_task

    try:
        task = load_task(folder)
        source = read_source(task, read_text(task.baseline_file), str(task.baseline_file))
        expressions = kernels_to_compile(task, source, build_suite(task))
        with Compiler(upstream=task_headers(task)) as compiler:
            compilation = compiler.compile(source.text, expressions)
    except UserError as error:
        return [error.describe()]
    except CompilerUnavailable as error:
        return [f"not compiled: {error}"]
    return [
        f"{task.baseline_file}:{d.line}: {d.message}" if d.line else d.message
        for d in compilation.errors
    ]
