"""The headers of others that one source needs, for a compiler that opens no file of theirs.

They reach NVRTC in memory, so that nothing has to be unpacked and the compiler's process stays
locked down. NVRTC compares names of in-memory headers as they are written, whatever folder the
including file has. So each header gets one name, its path after `UPSTREAM_PREFIX`, to which the
names in `#include` lines of other headers are changed. What the source itself includes is a header
of one line that includes the other. In messages and line tables a header then has its path, and
`#pragma once` knows it again.

Launches are taken out of headers (`without_launches`), since NVRTC compiles every kernel that a
launcher names: all 107 of vLLM's cache_kernels.cu for the one that a plan launches.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType

from astra_tui.cuda_source.stand_ins import LAUNCH_NAME
from astra_tui.model.compilation import UPSTREAM_PREFIX
from astra_tui.model.errors import UserError

MAX_HEADERS = 500
MAX_TOTAL_CHARACTERS = 16 << 20

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)

_LAUNCH = re.compile(r"<<<[^;{}]*?>>>[\s\\]*\(")
_LINE_BREAK = re.compile(r"\\?\n")
_BETWEEN_TOKENS = "\\ \t\r\n"
_OF_NAMES = frozenset("_" + string.ascii_letters + string.digits)


@dataclass(frozen=True)
class HeaderTree:
    """Files of others among which the names of `#include` are looked up.

    `include` are the folders that are searched, after the folder of the file that includes a name
    in quotes. `read` gives the text of a file by its path. `defines` are macros for every source
    that includes one of the files.
    """

    origin: str
    names: frozenset[str]
    read: Callable[[str], str]
    include: tuple[str, ...]
    defines: tuple[str, ...] = ()

    @property
    def includable(self) -> tuple[str, ...]:
        """The names by which a source can include the files."""
        found = (
            path[len(folder) :].lstrip("/")
            for path in sorted(self.names)
            for folder in self.include
            if not folder or path.startswith(f"{folder}/")
        )
        return tuple(dict.fromkeys(found))

    def find(self, name: str, folder: str | None) -> str:
        """The path of the file that a name means, "" for none; `folder` is the including file's.

        No name leaves the tree, nor one of `include` by which it is found.
        """
        paths = [] if folder is None else [_joined(folder, name)]
        inside = _joined("", name)
        paths += [_joined(each, inside) for each in self.include if inside]
        return next((path for path in paths if path in self.names), "")


@dataclass(frozen=True)
class Included:
    """What a source needs of a tree: the path of each name that it includes, and the headers.

    `headers` are texts by name, as NVRTC takes them.
    """

    names: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all headers in the tree."""
        names = (name for name in self.headers if name.startswith(UPSTREAM_PREFIX))
        return tuple(sorted(name[len(UPSTREAM_PREFIX) :] for name in names))


def included_headers(
    tree: HeaderTree,
    text: str,
    given: Mapping[str, str] | None = None,
    is_known: Callable[[str], bool] = lambda _: False,
    stand_ins: Mapping[str, str] = MappingProxyType({}),
) -> Included:
    """What `text` needs of a tree, directly or not.

    `given` are stand-ins, which come first and are among the headers; what they include is looked
    up as well. `is_known` tells names that the compiler knows without the tree: a header of the
    tree has such a name only for files next to it. `stand_ins` are the texts of such names, if
    they may include files of the tree. Raises UserError where it is too much.
    """
    search = _Search(tree, given or {}, is_known)
    names: dict[str, str] = {}
    texts = {"": text, **search.given}
    while new := {name: each for name, each in texts.items() if name not in search.searched}:
        search.searched.update(new)
        for each in new.values():
            names.update(search.found_in(each, ""))
        search.read_all(names.values())
        texts |= {name: stand_ins[name] for name in search.known if name in stand_ins}
    sources = {name: f'#include "{UPSTREAM_PREFIX}{path}"\n' for name, path in names.items()}
    return Included(names, {**search.texts, **sources, **search.given})


NOTHING = Included({}, {})
"""What a source needs that includes none of the files."""


@lru_cache(maxsize=4 * MAX_HEADERS)
def without_launches(text: str) -> str:
    """A text of as many lines in which no `kernel<<<...>>>(...)` names its kernel.

    In its place is a call of a function without a body: a launcher, which no plan asks for, still
    compiles, and a kernel that launches another one does not link.
    """
    parts: list[str] = []
    done = 0
    for match in _LAUNCH.finditer(text):
        begin, end = _kernel_begin(text, match.start()), _closing(text, match.end())
        if done <= begin < end:
            parts += [text[done:begin], f"{LAUNCH_NAME}()"]
            parts += _LINE_BREAK.findall(text, begin, end)
            done = end
    return "".join((*parts, text[done:]))


def _kernel_begin(text: str, end: int) -> int:
    """Where a kernel's name, with its namespaces and template arguments, begins; -1 for none."""
    begin = -1
    end = _token_end(text, end)
    while True:
        if text[end - 1 : end] == ">":
            end = _token_end(text, _opening(text, end))
        name_end = end
        while end > 0 and text[end - 1] in _OF_NAMES:
            end -= 1
        if end == name_end:
            return begin
        begin = end
        end = _token_end(text, end)
        if text[max(end - 2, 0) : end] != "::":
            return begin
        begin = end = end - 2  # With a space before it `::` is the global namespace's.


def _token_end(text: str, end: int) -> int:
    while end > 0 and text[end - 1] in _BETWEEN_TOKENS:
        end -= 1
    return end


def _opening(text: str, end: int) -> int:
    """Where the `<` is that the `>` before `end` closes; 0 for nowhere."""
    depth = parentheses = 0
    for at in range(end - 1, -1, -1):
        character = text[at]
        parentheses += (character == ")") - (character == "(")
        if not parentheses:
            depth += (character == ">") - (character == "<")
        if character in ";{}" or parentheses < 0:
            return 0
        if not depth:
            return at
    return 0


def _closing(text: str, begin: int) -> int:
    """Behind the parenthesis that closes the one before `begin`; -1 for none in the statement."""
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if text[at] == ";":
            return -1
        if not depth:
            return at + 1
    return -1


class _Search:
    def __init__(self, tree: HeaderTree, given: Mapping[str, str], is_known: Callable[[str], bool]):
        self.tree = tree
        self.given = given
        self.is_known = is_known
        self.texts: dict[str, str] = {}
        self.searched: set[str] = set()
        """Names of the sources and stand-ins whose includes were looked up."""
        self.known: set[str] = set()
        """Names that were included and that the compiler knows."""

    def found_in(self, text: str, path: str) -> Iterator[tuple[str, str]]:
        """The names that a text includes from the tree, and their paths."""
        for name, quoted in _includes(text):
            found = self._path_of(name, quoted, path)
            if found:
                yield name, found

    def read_all(self, paths: Iterable[str]) -> None:
        """Reads files and all that they include."""
        waiting = list(paths)
        while waiting:
            path = waiting.pop()
            if UPSTREAM_PREFIX + path not in self.texts:
                text = self.tree.read(path)
                self.texts[UPSTREAM_PREFIX + path] = self._with_paths(text, path)
                self._require_few()
                waiting += (found for _, found in self.found_in(text, path))

    def _path_of(self, name: str, quoted: bool, includer: str) -> str:
        if name in self.given:
            return ""
        folder = str(PurePosixPath(includer).parent) if includer and quoted else None
        if not self.is_known(name):
            return self.tree.find(name, folder)
        self.known.add(name)
        near = _joined(folder, name) if folder is not None else ""
        return near if near in self.tree.names else ""

    def _with_paths(self, text: str, path: str) -> str:
        def renamed(match: re.Match[str]) -> str:
            name, quoted = match[1] or match[2], match[1] is None
            found = self._path_of(name, quoted, path)
            if not found:
                return match[0]
            start = match.start(1 if match[1] else 2) - 1 - match.start()
            return f'{match[0][:start]}"{UPSTREAM_PREFIX}{found}"'

        return _INCLUDE.sub(renamed, text)

    def _require_few(self) -> None:
        total = sum(map(len, self.texts.values()))
        if len(self.texts) > MAX_HEADERS or total > MAX_TOTAL_CHARACTERS:
            raise UserError(
                f"{self.tree.origin}: the source includes too much of it: more than "
                f"{MAX_HEADERS} headers or {MAX_TOTAL_CHARACTERS:,} characters"
            )


@lru_cache(maxsize=4 * MAX_HEADERS)
def _includes(text: str) -> tuple[tuple[str, bool], ...]:
    """Every name that a text includes, and whether it stands in quotes."""
    return tuple((m[1] or m[2], m[1] is None) for m in _INCLUDE.finditer(text))


def _joined(folder: str, name: str) -> str:
    """A path without `.` and `..`; "" where it would leave the tree."""
    if name.startswith("/"):
        return ""
    parts: list[str] = []
    for part in PurePosixPath(folder, name).parts:
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
