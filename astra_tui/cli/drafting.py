"""A kernel task in the making: its source read once, drafted again for each answer, and kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from astra_tui.cli.commands.check import read_text
from astra_tui.cli.read_file import read_user_file
from astra_tui.cuda_source.clang import read_translation
from astra_tui.cuda_source.launchers import find_launcher
from astra_tui.cuda_source.translation import Translation
from astra_tui.drafting import Draft, draft_task
from astra_tui.drafting.answers import NO_ANSWERS, Answers, read_answers
from astra_tui.drafting.reading import open_launch
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.compiler.headers import HeaderTree
from astra_tui.lab.compiler.toolchain import find_toolchain
from astra_tui.lab.source_tree import SourceTree, Watch, open_source
from astra_tui.lab.upstream import task_headers, user_packages
from astra_tui.model.digest import content_hash
from astra_tui.model.drafts import OpenPoint
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import NAME_RULE, is_task_name, load_task
from astra_tui.packages.pip import Progress

ANSWERS_FILE = "answers.toml"

_DRAFTED = re.compile(r"^# drafted (\S+) ([0-9a-f]{64})$", re.MULTILINE)
_OF_SOURCE = ("source", "kernel", "include", "define", "python")
"""Answers for which the source is read again."""


@dataclass(frozen=True)
class FoundKernel:
    """A kernel's source: where it lies, and as it was read."""

    tree: SourceTree
    main: Path
    kernel: str | None
    translation: Translation


class Drafting:
    """A draft and the answers that it follows. What it is given is in its folder at once."""

    def __init__(self, folder: Path, answers: Answers = NO_ANSWERS, watch: Watch | None = None):
        """Reads the source and drafts it; a folder with a draft in it gives its own answers.

        `watch` is told what is being done. Raises UserError; KernelNotNamed for several kernels.
        """
        self.folder = folder
        watch = watch or _unwatched
        self._kept: dict[str, str] = {}
        if folder.exists():
            answers = self._continued(answers)
        elif not answers.source:
            raise UserError("no source is named", hint="say --from WHERE, or from = in --answers")
        _require_task_name(folder)
        self.answers = answers
        self.found = find_kernel(answers, watch)
        watch("drafting, and compiling the draft")
        self.draft = self._drafted(answers)

    def _continued(self, answers: Answers) -> Answers:
        file = self.folder / ANSWERS_FILE
        if answers != NO_ANSWERS or not file.is_file():
            hint = "without --from and --answers its draft continues" if file.is_file() else ""
            raise UserError(
                "this folder exists already; name a new one", file=str(self.folder), hint=hint
            )
        text = read_text(file)
        self._kept = dict(_DRAFTED.findall(text))
        return read_answers(text, str(file)).resolved(self.folder)

    # -- what a screen needs ---------------------------------------------------------------------

    @property
    def points(self) -> tuple[OpenPoint, ...]:
        """What is open."""
        return self.draft.open_points

    @property
    def answered(self) -> Mapping[str, str]:
        """The answers as TOML writes them, by key."""
        return self.answers.written()

    @property
    def source(self) -> tuple[str, str]:
        """The kernel's file as it is shown, and its text."""
        translation = self.found.translation
        return self.found.tree.shown(str(self.found.main)), translation.files[translation.main]

    def answer(self, given: Mapping[str, str]) -> None:
        """Takes answers as TOML writes them, by key ("" takes one back), and drafts again.

        Raises UserError for one that does not fit; nothing has changed then.
        """
        answers = self.answers.with_answers(given)
        before, found = self.answers, self.found
        if any(getattr(answers, name) != getattr(before, name) for name in _OF_SOURCE):
            self.found = find_kernel(answers, _unwatched)
        try:
            draft = self._drafted(answers)
        except UserError:
            self.found = found
            raise
        self.answers, self.draft = answers, draft
        self.keep()

    # -- files -----------------------------------------------------------------------------------

    def keep(self) -> None:
        """Writes the draft with its answers. Raises UserError where a file of it was edited."""
        files = self.files(self.draft)
        own = self.draft.files
        for name, content in own.items():
            file = self.folder / name
            there = file.read_bytes() if file.is_file() else content.encode()
            if there != content.encode() and content_hash(there) != self._kept.get(name):
                raise UserError(
                    "it was edited since it was drafted, and a new draft would drop that",
                    file=str(file),
                    hint=f"draft into another folder: astra-tui new OTHER --answers "
                    f"{self.folder / ANSWERS_FILE}",
                )
        self._kept = {name: content_hash(content.encode()) for name, content in own.items()}
        drafted = "".join(f"# drafted {name} {digest}\n" for name, digest in self._kept.items())
        files[ANSWERS_FILE] = f"{drafted}{self.answers.text()}"
        shutil.rmtree(self.folder / "upstream", ignore_errors=True)
        _write(self.folder, files)

    def files(self, draft: Draft) -> dict[str, str | bytes]:
        """A draft's files with those of upstream that it includes, and where they come from."""
        read, defines = self.found.translation, self.answers.define
        tree = self.found.tree
        upstream = tree.upstream(Path(read.main), draft.upstream, read.roots, defines)
        return {**draft.files, **upstream}

    def finish(self) -> tuple[str, ...]:
        """Fits the draft to what a compiler accepts, writes it, loads and compiles it.

        Returns what does not work yet, in words.
        """
        accepted = accepted_sizes(self.draft, self.answers.define)
        if accepted:
            self.draft = self._drafted(self.answers, accepted=accepted)
        self.keep()
        problems = compile_task(self.folder)
        if problems:
            # Half of what frameworks ship is for 16-bit types alone, and a few kernels for float.
            first = self.draft
            self.draft = self._drafted(self.answers, (DType.FLOAT32,), accepted)
            if self.draft.files != first.files:
                self.keep()
                if not compile_task(self.folder):
                    return ()
            self.draft = first
            self.keep()
            problems += first.unread
        return problems

    def _drafted(
        self,
        answers: Answers,
        assumed: tuple[DType, ...] = (),
        accepted: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Draft:
        found = self.found
        name = self.folder.resolve().name
        return draft_task(name, found.translation, found.kernel, assumed, answers, accepted or {})


def _unwatched(_what: str) -> Progress:
    return lambda _size: None


def _require_task_name(folder: Path) -> None:
    name = folder.resolve().name
    if not is_task_name(name):
        proposed = re.sub(r"\W", "_", name.lower(), flags=re.ASCII)
        said = f"it is {NAME_RULE}" + (f"; {proposed} is one" if is_task_name(proposed) else "")
        raise UserError(f"{name!r} is not a valid task name", file=str(folder), hint=said)


def find_kernel(answers: Answers, watch: Watch) -> FoundKernel:
    """Finds and reads the source with what it includes. Raises UserError."""
    for root in answers.include:
        if not Path(root).is_dir():
            raise UserError("-I names no folder", file=root)
    tree = open_source(answers.source, user_packages(), watch)
    main, kernel = tree.kernel(answers.kernel or None)
    if b"\0" in read_user_file(main, ".cu file"):
        raise UserError(
            "this is no text in UTF-8: it holds zero bytes",
            file=str(main),
            hint="save it as UTF-8 first",
        )
    watch(f"reading {tree.shown(str(main))}")
    roots = [Path(root) for root in answers.include]
    cuda = find_toolchain().include_dirs
    translation = read_translation(main, roots, cuda, answers.define, tree.project)
    names = {k.name for k in translation.kernels()}
    wanted = kernel.partition(":")[0] if kernel else next(iter(names), "")
    if wanted in names and (kernel or len(names) == 1):
        watch(f"looking for launches of {wanted}")
        translation = with_launcher(translation, wanted, answers, tree.project)
    launcher = translation.launcher
    if launcher is not None:
        launcher = msgspec.structs.replace(launcher, file=tree.shown(launcher.file))
        translation = msgspec.structs.replace(translation, launcher=launcher)
    return FoundKernel(tree, main, kernel, translation)


def with_launcher(
    translation: Translation, kernel: str, answers: Answers, folders: Sequence[Path]
) -> Translation:
    """A translation with what its project, in `folders`, says elsewhere of a kernel's launch."""
    templates = open_launch(translation, kernel)
    if templates is None:
        return translation
    main = Path(translation.main)
    found = find_launcher(main, kernel, templates, folders, answers.python)
    if found is None or not found.text:
        return msgspec.structs.replace(translation, launcher=found)
    roots, cuda = [Path(root) for root in translation.roots], find_toolchain().include_dirs
    return read_translation(main, roots, cuda, answers.define, folders, found)


def accepted_sizes(draft: Draft, defines: tuple[str, ...]) -> Mapping[str, tuple[int, ...]]:
    """Sizes of template arguments that no call shows, as kernel and launcher accept them."""
    if draft.instances is None:
        return {}
    files = draft.instances.files
    tree = HeaderTree("the source", frozenset(files), files.__getitem__, ("",), defines)
    try:
        with Compiler(upstream=tree) as compiler:
            return draft.instances.accepted(compiler.refused_instantiations)
    except (UserError, CompilerUnavailable):
        return {}


def compile_task(folder: Path) -> tuple[str, ...]:
    """Loads a task and compiles its baseline; what does not work yet, in words."""
    try:
        task = load_task(folder)
        source = read_source(task, read_text(task.baseline_file), str(task.baseline_file))
        expressions = kernels_to_compile(task, source, build_suite(task))
        with Compiler(upstream=task_headers(task)) as compiler:
            compilation = compiler.compile(source.text, expressions)
    except UserError as error:
        return (error.describe(),)
    except CompilerUnavailable as error:
        return (f"not compiled: {error}",)
    return tuple(
        f"{task.baseline_file}:{d.line}: {d.message}" if d.line else d.message
        for d in compilation.errors
    )


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(f"cannot be written: {error}", file=str(folder)) from None
