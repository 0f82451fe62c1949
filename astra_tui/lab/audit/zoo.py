"""The zoo: kernels that are known to be wrong or right, made from small changes to known sources.

A zoo is a folder: `planted/*.toml`, one kind of wrong kernels a file, `honest/*.toml`, unusual
kernels that are right, `tasks/`, tasks beyond the bundled ones, and `draw.toml`, by what seed
mutants are drawn, and `equivalent.toml`, proofs for mutants that change nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from astra_tui.lab.audit.mutants import Drawn, draw
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, UserError
from astra_tui.model.findings import Acceptance
from astra_tui.model.task import KernelTask, Values, load_task
from astra_tui.model.task_folders import bundled

T = TypeVar("T")


class ZooError(UserError):
    """A zoo that cannot be read."""


class Witness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case on which a wrong kernel is wrong, on any device; the task's first type by default."""

    dims: dict[str, int]
    dtype: str = ""
    values: dict[str, Values] = {}
    offsets: dict[str, int] = {}
    row_padding: dict[str, int] = {}
    scalars: dict[str, float] = {}

    def case(self, task: KernelTask) -> Case:
        """The case that a device can run."""
        return Case(
            name="witness",
            why="the values on which the kernel is known to be wrong",
            dtype=DType(self.dtype) if self.dtype else task.dtypes[0],
            dims=self.dims,
            values=self.values,
            offsets=self.offsets,
            row_padding=self.row_padding,
            scalars=self.scalars,
            outside_contract="",
        )


class _Kernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kernel as its file says: a text, or changes to a base.

    A base is a file of the task, or an honest kernel that stands before it, by its id.
    """

    id: str
    task: str
    why: str
    base: str = "tuned.cu"
    edits: tuple[tuple[str, str], ...] = ()
    text: str = ""
    witness: Witness | None = None
    reason: str = ""
    undefined: bool = False
    rulings: tuple[Acceptance, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    about: str
    kernels: tuple[_Kernel, ...]


class Entry(msgspec.Struct, frozen=True):
    """One kernel of the zoo.

    `why` says what is wrong with it, or what is unusual. A wrong one has a `witness`, or a `reason`
    why it is wrong on a GPU although no case on the emulator can show it. Where what it does is
    `undefined`, a GPU may give the right values by luck. `rulings` are what an engineer would
    accept in task.toml for an honest one, each with its reason.
    """

    id: str
    kind: str
    task: str
    text: str
    why: str
    witness: Witness | None = None
    reason: str = ""
    undefined: bool = False
    rulings: tuple[Acceptance, ...] = ()


class Draw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How mutants are drawn from all that the rules give."""

    seed: int
    count: int
    former_names: dict[str, str] = {}
    """Sources that were renamed, each with the name that it is drawn by."""


class _Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mutants: tuple[str, ...]
    reason: str


class _Proofs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mutants that pass because they change nothing, each group with its proof."""

    proofs: tuple[_Proof, ...] = ()


class Zoo(msgspec.Struct, frozen=True):
    """All entries, in the order of their files, and the draw of mutants."""

    folder: Path
    planted: tuple[Entry, ...]
    honest: tuple[Entry, ...]
    draw: Draw
    abouts: Mapping[str, str]
    """What each kind of planted kernels is."""
    proofs: Mapping[str, str]
    """Why mutants, by name, change nothing that the contract can see."""

    def drawn(self) -> tuple[Drawn, ...]:
        """The mutants that are drawn from all right sources."""
        told = self.draw
        return draw(self.sources(), told.seed, told.count, told.former_names)

    def task_folder(self, name: str) -> Path:
        """The folder of a task: the zoo's own, else a bundled one."""
        return _task_folder(self.folder, name)

    def task(self, name: str) -> KernelTask:
        """A task by name. Raises TaskError."""
        return _loaded(self.task_folder(name))

    def sources(self) -> Iterator[tuple[str, str, str]]:
        """(name, task, text) of all right sources: those of the tasks, then the honest ones."""
        names = dict.fromkeys(e.task for e in (*self.planted, *self.honest))
        for task in sorted(names):
            for file in sorted(self.task_folder(task).glob("*.cu")):
                yield f"{task}/{file.name}", task, file.read_text(encoding="utf-8")
        for entry in self.honest:
            yield entry.id, entry.task, entry.text


def read_zoo(folder: Path) -> Zoo:
    """Reads a zoo. Raises ZooError with the file that is wrong."""
    if not (folder / "planted").is_dir():
        raise ZooError(
            "there is no zoo of kernels here",
            file=str(folder),
            hint="it lies in a checkout, under tests/zoo; name its folder with --zoo",
        )
    abouts: dict[str, str] = {}
    entries: dict[str, list[Entry]] = {"honest": [], "planted": []}
    taken: set[str] = set()
    bases: dict[str, str] = {}
    for group, found in entries.items():
        for file in sorted((folder / group).glob("*.toml")):
            told = _convert(file, _File)
            if group == "planted":
                abouts[told.kind] = told.about
            for kernel in told.kernels:
                if kernel.id in taken:
                    raise ZooError(f"two kernels are called {kernel.id}", file=str(file))
                taken.add(kernel.id)
                found.append(_entry(folder, file, told.kind, kernel, group == "planted", bases))
                if group == "honest":
                    bases[kernel.id] = found[-1].text
    draw = _convert(folder / "draw.toml", Draw)
    told_proofs = _convert(folder / "equivalent.toml", _Proofs).proofs
    proofs = {name: proof.reason for proof in told_proofs for name in proof.mutants}
    planted, honest = tuple(entries["planted"]), tuple(entries["honest"])
    return Zoo(folder, planted, honest, draw, abouts, proofs)


def _entry(
    folder: Path, file: Path, kind: str, kernel: _Kernel, wrong: bool, bases: Mapping[str, str]
) -> Entry:
    if wrong == (kernel.witness is None and not kernel.reason):
        text = "a planted kernel needs a witness or a reason, and an honest one has neither"
        raise ZooError(f"{kernel.id}: {text}", file=str(file))
    if wrong and kernel.rulings:
        raise ZooError(f"{kernel.id}: nothing is ruled for a planted kernel", file=str(file))
    for ruling in kernel.rulings:
        if not ruling.reason.strip() or (ruling.finding is None) == (not ruling.condition.strip()):
            text = "a ruling names either a finding or a condition, and has a reason"
            raise ZooError(f"{kernel.id}: {text}", file=str(file))
    text = kernel.text or _edited(folder, file, kernel, bases)
    return Entry(
        kernel.id,
        kind,
        kernel.task,
        text,
        kernel.why,
        kernel.witness,
        kernel.reason,
        kernel.undefined,
        kernel.rulings,
    )


def _edited(folder: Path, file: Path, kernel: _Kernel, bases: Mapping[str, str]) -> str:
    """The base with every edit applied; each has to find its text once."""
    base = _task_folder(folder, kernel.task) / kernel.base
    try:
        text = bases.get(kernel.base) or base.read_text(encoding="utf-8")
    except OSError as error:
        raise ZooError(f"{kernel.id}: cannot read {base}: {error}", file=str(file)) from None
    for find, replace in kernel.edits:
        if text.count(find) != 1:
            times = f"{text.count(find)} times"
            first = find.strip().splitlines()[0] if find.strip() else "nothing"
            raise ZooError(
                f"{kernel.id}: {base.name} holds '{first}...' {times}, and not once",
                file=str(file),
            )
        text = text.replace(find, replace)
    if not kernel.edits:
        raise ZooError(f"{kernel.id}: neither a text nor edits", file=str(file))
    return text


def _task_folder(folder: Path, name: str) -> Path:
    own = folder / "tasks" / name
    return own if own.is_dir() else bundled("kernels") / name


@cache
def _loaded(folder: Path) -> KernelTask:
    return load_task(folder)


def _convert(file: Path, wanted: type[T]) -> T:
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        return msgspec.convert(told, wanted)
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror}", file=str(file)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ZooError(str(error), file=str(file), place=Place()) from None
