"""`astra-tui new`: a kernel task from someone's CUDA source, wherever it lies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from astra_tui import plain
from astra_tui.cli.check import read_text
from astra_tui.cli.command import Options, argument, command, flag, switch
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.failures import error_entry, print_error
from astra_tui.cli.flags import JSON
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from astra_tui.cli.answers import NewAnswer
    from astra_tui.cuda_source.translation import Translation
    from astra_tui.drafting import Draft
    from astra_tui.drafting.answers import Answers
    from astra_tui.lab.source_tree import KernelNotNamed, SourceTree
    from astra_tui.plain.output import Steps


def _paths(
    _context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """What a shell completes for `--from`: files and folders."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


@command(
    "make a kernel task from a CUDA source",
    "Writes a draft of the task and lists what is left for you to decide. The source is a file, a "
    "folder such as a checkout, an installed package by its name, or a package of the index by "
    "NAME==VERSION, which is fetched by pip and read, never run; after a package :PATH may name a "
    "file or folder in it. Of several kernels --kernel names one; without it they are listed.",
    argument("folder", "FOLDER", "the task's folder, which must not exist"),
    flag(
        "--from",
        "source",
        metavar="WHERE",
        shell_complete=_paths,
        help="a CUDA file, a folder, or a package: NAME, NAME==VERSION, with :PATH",
    ),
    flag("--kernel", metavar="NAME[:LINE]", help="which kernel, if the source has several"),
    flag(
        "-I",
        "--include",
        metavar="DIR",
        multiple=True,
        help="where its headers are, if not in its project",
    ),
    flag("-D", "--define", metavar="NAME[=VALUE]", multiple=True, help="a macro to define"),
    flag("--answers", metavar="FILE", help="what the source does not say (docs/kernel-task.md)"),
    switch("--whole", "include the source as it is, instead of taking the kernel out of it"),
    switch("--ask", "ask for each open point; Enter leaves it as it is drafted"),
    JSON,
)
def run(options: Options) -> int:
    """Writes the draft, compiles it, and lists what is left to decide."""
    from astra_tui.cli.answers import NewAnswer, OpenPointEntry
    from astra_tui.drafting import draft_task
    from astra_tui.lab.source_tree import KernelNotNamed
    from astra_tui.model.dtypes import DType
    from astra_tui.model.task import NAME_RULE, is_task_name
    from astra_tui.plain.drafts import print_draft
    from astra_tui.plain.output import steps

    folder, answers = Path(options.folder), _answers(options)
    if not answers.source:
        raise UserError("no source is named", hint="say --from WHERE, or from = in --answers")
    if folder.exists():
        raise UserError("this folder exists already; name a new one", file=str(folder))
    name = folder.resolve().name
    if not is_task_name(name):
        proposed = re.sub(r"\W", "_", name.lower(), flags=re.ASCII)
        said = f"it is {NAME_RULE}" + (f"; {proposed} is one" if is_task_name(proposed) else "")
        raise UserError(f"{name!r} is not a valid task name", file=str(folder), hint=said)
    with steps() as shown:
        try:
            found = _find(answers, shown)
        except KernelNotNamed as unclear:
            shown.clear()
            return _list_kernels(unclear, options.json)
        translation, kernel = found.translation, found.kernel
        shown.begin("drafting, and compiling the draft")
        draft = draft_task(name, translation, kernel, answers=answers)
        if options.ask:
            shown.clear()
            answers, draft = _ask(
                answers, lambda given: draft_task(name, translation, kernel, answers=given)
            )
        accepted = accepted_sizes(draft, answers.define)
        if accepted:
            draft = draft_task(name, translation, kernel, answers=answers, accepted=accepted)
        files = _files(draft, found, answers)
        _write(folder, files)
        problems = _try_it(folder)
        if problems:
            # Half of what frameworks ship is for 16-bit types alone, and a few kernels for float.
            other = draft_task(name, translation, kernel, (DType.FLOAT32,), answers, accepted)
            other_files = _files(other, found, answers)
            if other_files != files:
                _rewrite(folder, other_files)
                if _try_it(folder):
                    _rewrite(folder, files)
                else:
                    draft, files, problems = other, other_files, []
    tree = found.tree
    answer = NewAnswer(
        folder=str(folder),
        source=tree.shown(str(found.main)),
        origin=tree.origin,
        licence=tree.licence,
        sha256=tree.package.sha256 if tree.package else "",
        found=tuple(tree.shown(r) for r in translation.roots[len(answers.include) :]),
        files=tuple(sorted(files)),
        open_points=tuple(OpenPointEntry(p.text, p.key) for p in draft.open_points),
        answered=answers.keys(),
        problems=(*problems, *(draft.unread if problems else ())),
    )
    if options.json:
        plain.print_json(answer)
    else:
        points = [str(p) for p in draft.open_points]
        print_draft(folder, answer.files, _origin_words(answer), points, answer.problems)
    return ExitCode.OK


def _answers(options: Options) -> Answers:
    """The answers file with the flags, which come before it."""
    from astra_tui.drafting.answers import NO_ANSWERS, read_answers

    answers = NO_ANSWERS
    if options.answers:
        file = Path(options.answers)
        answers = read_answers(read_text(file), str(file)).resolved(file.parent)
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
    click.echo("Enter leaves a point as it is drafted; a reply is a value as in TOML.", err=True)
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


def _origin_words(answer: NewAnswer) -> list[str]:
    """Where the source comes from, in lines."""
    lines = [f"from {answer.source}: {answer.origin} ({answer.licence})"]
    if answer.sha256:
        lines.append(f"SHA-256 of the package's file: {answer.sha256}")
    if answer.found:
        lines.append(f"headers found below {', '.join(answer.found)}")
    return lines


@dataclass(frozen=True)
class _Found:
    """A kernel's source: where it lies, and as it was read."""

    tree: SourceTree
    main: Path
    kernel: str | None
    translation: Translation


def _find(answers: Answers, shown: Steps) -> _Found:
    """Finds and reads the source with what it includes. Raises UserError."""
    from astra_tui.cuda_source.clang import read_translation
    from astra_tui.lab.compiler.toolchain import find_toolchain
    from astra_tui.lab.source_tree import open_source
    from astra_tui.lab.upstream import user_packages

    for root in answers.include:
        if not Path(root).is_dir():
            raise UserError("-I names no folder", file=root)
    tree = open_source(answers.source, user_packages(), shown.begin)
    main, kernel = tree.kernel(answers.kernel or None)
    if b"\0" in read_user_file(main, ".cu file"):
        raise UserError(
            "this is no text in UTF-8: it holds zero bytes",
            file=str(main),
            hint="save it as UTF-8 first",
        )
    shown.begin(f"reading {tree.shown(str(main))}")
    roots = [Path(root) for root in answers.include]
    cuda = find_toolchain().include_dirs
    translation = read_translation(main, roots, cuda, answers.define, tree.project)
    return _Found(tree, main, kernel, translation)


def _list_kernels(unclear: KernelNotNamed, as_json: bool) -> int:
    """Prints the kernels of which one is to be named, and says so."""
    from astra_tui.cli.answers import KernelsFoundAnswer
    from astra_tui.plain.drafts import print_kernels

    code = ExitCode.BAD_INPUT
    if as_json:
        plain.print_json(KernelsFoundAnswer(int(code), error_entry(unclear), unclear.kernels))
    else:
        by_file: dict[str, list[tuple[int, str]]] = {}
        for kernel in unclear.kernels:
            by_file.setdefault(kernel.file, []).append((kernel.line, kernel.name))
        print_kernels(by_file)
    print_error(unclear)
    return code


def accepted_sizes(draft: Draft, defines: tuple[str, ...]) -> Mapping[str, tuple[int, ...]]:
    """Sizes of template arguments that no call shows, as kernel and launcher accept them."""
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable
    from astra_tui.lab.compiler.headers import HeaderTree

    if draft.instances is None:
        return {}
    files = draft.instances.files
    tree = HeaderTree("the source", frozenset(files), files.__getitem__, ("",), defines)
    try:
        with Compiler(upstream=tree) as compiler:
            return draft.instances.accepted(compiler.refused_instantiations)
    except (UserError, CompilerUnavailable):
        return {}


def _files(draft: Draft, found: _Found, answers: Answers) -> dict[str, str | bytes]:
    """The draft's files, the answers, and the upstream files with where they come from."""
    read = found.translation
    upstream = found.tree.upstream(Path(read.main), draft.upstream, read.roots, answers.define)
    return {**draft.files, "answers.toml": answers.text(), **upstream}


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
