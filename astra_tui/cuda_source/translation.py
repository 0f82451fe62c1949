"""A CUDA source as a compiler's front end reads it: its declarations with macros expanded.

Plain data: `clang.py` makes it, in a process of its own. Each declaration has its place in the
file it was written in, so that text can be taken from there unchanged.
"""

from __future__ import annotations

import msgspec


class Declaration(msgspec.Struct, frozen=True):
    """A function, type, variable or the like outside of functions.

    `start` and `end` are byte offsets in its file. `text` is the declaration as it reads with
    macros expanded and dead branches gone, and its place does not follow the file's lines.
    """

    name: str
    kind: str
    """ "function", "type", "alias", "variable", "enum", "using" or "other"."""
    scope: tuple[str, ...]
    """Names of the namespaces around it, "" for one without a name."""
    file: str
    start: int
    end: int
    line: int
    text: str
    is_kernel: bool = False
    is_device: bool = False
    is_definition: bool = True
    enumerators: tuple[str, ...] = ()
    last_line: int = 0


class Include(msgspec.Struct, frozen=True):
    """An `#include` line of a file, and the file that it opened ("" for CUDA's and stand-ins)."""

    file: str
    line: int
    name: str
    opened: str = ""
    is_quoted: bool = False


Value = bool | int | str


class Choice(msgspec.Struct, frozen=True):
    """What a generator was given for a parameter, and what else it takes."""

    name: str
    value: Value
    others: tuple[Value, ...] = ()


class Rendering(msgspec.Struct, frozen=True):
    """Template arguments that a generator names: what it was given, and the arguments as text."""

    given: dict[str, Value]
    arguments: dict[str, tuple[str, ...]]
    """By the name of the template."""


class Launcher(msgspec.Struct, frozen=True):
    """What of a launch stands elsewhere than in the kernel's file, and where it comes from."""

    file: str
    text: str = ""
    """Host code, which is read behind the kernel's file."""
    renderings: tuple[Rendering, ...] = ()
    """Where Python only names the template arguments of what launches in the kernel's file."""
    line: int = 0
    function: str = ""
    """The Python function that writes it, "" for C++ of the project."""
    choices: tuple[Choice, ...] = ()
    problem: str = ""
    """Why a generator wrote nothing."""


class Translation(msgspec.Struct, frozen=True, eq=False):
    """One source with all that it includes of its own project. Equal to itself alone."""

    main: str
    files: dict[str, str]
    """Path to text of the main file and of the project's files that it includes."""
    declarations: tuple[Declaration, ...]
    includes: tuple[Include, ...]
    roots: tuple[str, ...] = ()
    """The folders in which includes were looked up."""
    missing: tuple[str, ...] = ()
    """Headers that were not found, and for which a stand-in was read."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Byte offsets of the main file's branches that the preprocessor left out."""
    errors: tuple[str, ...] = ()
    """What the front end did not understand of the project's files, with file and line."""
    notes: tuple[str, ...] = ()
    """What its author has to know of how the files were read."""
    class_constants: dict[str, int] = {}
    """Whole numbers that classes of templates hold and host code of the main file names, as
    `ns::Traits<true>::width`."""
    class_sizes: dict[str, int] = {}
    """Bytes of the project's classes that are no templates, by name."""
    project: tuple[str, ...] = ()
    """Folders below which headers were looked for that lie in none of `roots`."""
    launcher: Launcher | None = None
    """What was found of the kernel's launch outside of the main file. `files` has its text at the
    end of the main file's."""

    def kernels(self) -> tuple[Declaration, ...]:
        """The `__global__` functions with a body that the main file defines."""
        return tuple(
            d for d in self.declarations if d.is_kernel and d.is_definition and d.file == self.main
        )

    def original(self, declaration: Declaration) -> str:
        """A declaration as it is written in its file."""
        text = self.files[declaration.file].encode()
        return text[declaration.start : declaration.end].decode(errors="replace")
