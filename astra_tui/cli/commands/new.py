"""`astra-tui new`: a kernel task from someone's CUDA source, wherever it lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag, switch
from astra_tui.cli.commands.check import read_text
from astra_tui.cli.exit_codes import ExitCode, error_entry, print_error
from astra_tui.cli.flags import JSON, PLAIN
from astra_tui.model.errors import UserError
from astra_tui.model.visible import harmless

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from astra_tui.cli.drafting import Drafting
    from astra_tui.cli.json_answers import NewAnswer
    from astra_tui.drafting.answers import Answers
    from astra_tui.lab.source_tree import KernelNotNamed


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
    argument("folder", "FOLDER", "the task's folder: a new one, or one with a draft to continue"),
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
    switch("--ask", "ask for each open point, on the screen or in lines (--plain)"),
    PLAIN,
    JSON,
    example="astra-tui new my_task --from my_kernel.cu",
)
def run(options: Options) -> int:
    """Writes the draft, compiles it, and lists what is left to decide."""
    from astra_tui.cli.drafting import ANSWERS_FILE, Drafting
    from astra_tui.cli.json_answers import NewAnswer
    from astra_tui.cli.screen import choices_for_screen, show_draft
    from astra_tui.drafting.answers import located
    from astra_tui.lab.source_tree import KernelNotNamed
    from astra_tui.plain.output import Steps
    from astra_tui.present.tasks import draft_blocks

    folder = Path(options.folder)
    screen = choices_for_screen(options) if options.ask and not options.json else None
    with Steps() as shown:
        try:
            drafting = Drafting(folder, _answers(options), shown.begin)
            if options.ask:
                shown.clear()
                _ask(drafting) if screen is None else show_draft(drafting, screen)
                shown.begin("compiling the draft")
            problems = drafting.finish()
        except KernelNotNamed as unclear:
            shown.clear()
            return _list_kernels(unclear, options.json)
        except UserError as error:
            file = options.answers
            raise located(error, read_text(Path(file)), file) if file else error from None
    tree, translation = drafting.found.tree, drafting.found.translation
    answers = drafting.answers
    answer = NewAnswer(
        folder=str(folder),
        source=tree.shown(str(drafting.found.main)),
        origin=tree.origin,
        licence=tree.licence,
        sha256=tree.package.sha256 if tree.package else "",
        found=tuple(tree.shown(r) for r in translation.roots[len(answers.include) :]),
        files=tuple(sorted((*drafting.files(drafting.draft), ANSWERS_FILE))),
        open_points=drafting.points,
        answered=answers.keys(),
        problems=problems,
    )
    plain.print_answer(
        answer,
        options.json,
        lambda: draft_blocks(
            folder, answer.files, _origin_words(answer), answer.open_points, answer.problems
        ),
    )
    return ExitCode.UNFINISHED_DRAFT if problems else ExitCode.OK


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


def _ask(drafting: Drafting) -> None:
    """Asks in lines for each open point in turn, also for those that an answer brings up."""
    from astra_tui.plain.console import text_lines
    from astra_tui.present.tasks import point_blocks

    asked: set[str] = set()
    source = drafting.source[1].split("\n")
    click.echo("Enter leaves a point as it is drafted; a reply is a value as in TOML.", err=True)
    while point := next((p for p in drafting.points if p.key and p.key not in asked), None):
        asked.add(point.key)
        for line in ("", *text_lines(point_blocks(point, source))):
            click.echo(line, err=True)
        given: dict[str, str] = {}
        for guess in point.guesses:
            shown = f"{guess.key} [{harmless(guess.value)}]" if guess.value else guess.key
            if text := click.prompt(shown, default="", show_default=False, err=True):
                given[guess.key] = text
        try:
            if given:
                drafting.answer(given)
        except UserError as error:
            click.echo(error.describe(), err=True)
            asked.discard(point.key)


def _origin_words(answer: NewAnswer) -> list[str]:
    """Where the source comes from, in lines."""
    lines = [f"from {answer.source}: {answer.origin} ({answer.licence})"]
    if answer.sha256:
        lines.append(f"SHA-256 of the package's file: {answer.sha256}")
    if answer.found:
        lines.append(f"headers found below {', '.join(answer.found)}")
    return lines


def _list_kernels(unclear: KernelNotNamed, as_json: bool) -> int:
    """Prints the kernels of which one is to be named, and says so."""
    from astra_tui.cli.json_answers import KernelsFoundAnswer
    from astra_tui.present.tasks import kernels_blocks

    code = ExitCode.BAD_INPUT
    by_file: dict[str, list[tuple[int, str]]] = {}
    for kernel in unclear.kernels:
        by_file.setdefault(kernel.file, []).append((kernel.line, kernel.name))
    answer = KernelsFoundAnswer(int(code), error_entry(unclear), unclear.kernels)
    plain.print_answer(answer, as_json, lambda: kernels_blocks(by_file))
    print_error(unclear)
    return code
