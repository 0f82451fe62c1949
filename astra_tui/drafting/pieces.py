"""The parts of a source that a kernel needs, and what of its file is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_tui.cuda_source.expanded import mentioned
from astra_tui.cuda_source.syntax import one_line
from astra_tui.cuda_source.translation import Declaration, Include, Translation

TORCH_ELEMENT = re.compile(r"\b(?:at|c10|torch::headeronly)::(Half|BFloat16|Float8_e\w+)\b")
"""PyTorch's element types, which kernels compute with."""
_HOST_MARKS = re.compile(
    r"<<<|\bcuda[A-Z]\w*\s*\(|\b(?:std|at|torch|c10|thrust|tvm)::"
    r"(?!(?:headeronly::)?(?:Half|BFloat16|Float8_e)|min\b|max\b|numeric_limits\b|is_\w+\b|conditional|enable_if|remove_|decay|array\b"
    r"|size_t\b|u?int\d+_t\b|true_type\b|false_type\b|integral_constant|gcd\b|move\b|forward\b)"
    r"|\b(?:printf|malloc|free|atoi)\s*\("
)
_HOST_TYPES = re.compile(
    r"<<<|\b(?:at|torch|c10|thrust|tvm)::(?!(?:headeronly::)?(?:Half|BFloat16|Float8_e))"
    r"|\bLaunchKernel\b"
)
_LICENCE = re.compile(r"(?i)copyright|licen[cs]e|SPDX")
_PLAN = re.compile(r"/\*[\s*!]*@launch\b")
_FOREIGN_NAMESPACES = re.compile(r"\bnamespace\s+(?:std|at|torch|c10|thrust|tvm)\b")
_LEADING_COMMENT = re.compile(r"(?:[ \t]*//[^\n]*\n|[ \t]*/\*(?:[^*]|\*(?!/))*\*/[ \t]*\n)+\Z")
_FILE_COMMENT = re.compile(r"\A\s*((?://[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/\s*)+)")
_BRANCH = re.compile(
    r"^[ \t]*#[ \t]*(?:(?P<begin>if\w*)[ \t]*(?:defined[ \t(]*)?(?P<macro>[A-Za-z_]\w*)?[^\n]*"
    r"|(?:else|elif)\b[^\n]*|(?P<end>endif)\b[^\n]*)",
    re.MULTILINE,
)
_FUNCTION = re.compile(
    r"\b(?!(?:if|for|while|switch|constexpr)\b)(\w+)\s*(?:<[^<>;(){}]*>\s*)?\([^;{}()]*\)\s*\{"
)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n\\]|\\.|\\\n)*$", re.MULTILINE | re.DOTALL
)
_CUB = {
    "BlockReduce": "block/block_reduce", "BlockScan": "block/block_scan",
    "BlockLoad": "block/block_load", "BlockStore": "block/block_store",
    "BlockRadixSort": "block/block_radix_sort", "BlockExchange": "block/block_exchange",
    "BlockAdjacentDifference": "block/block_adjacent_difference",
    "BlockReduceAlgorithm": "block/block_reduce", "BlockScanAlgorithm": "block/block_scan",
    "BlockLoadAlgorithm": "block/block_load", "BlockStoreAlgorithm": "block/block_store",
    "WarpReduce": "warp/warp_reduce", "WarpScan": "warp/warp_scan",
}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A part of the main file outside of functions, as it is written there."""

    text: str
    start: int
    end: int
    line: int
    scope: tuple[str, ...] = ()
    defines: frozenset[str] = frozenset()
    label: str = ""
    is_host: bool = False
    """Whether it is for launchers only, so that it is left out."""
    is_always_kept: bool = False
    is_kernel: bool = False


@dataclass
class Kept:
    """What a kernel's own file is made of."""

    licence: str = ""
    includes: list[str] = field(default_factory=list)
    code: list[Piece] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Labels of what is missing, with lines."""
    missing_headers: list[str] = field(default_factory=list)
    """Headers of the source's own project that were not found."""
    upstream: tuple[str, ...] = ()
    """Paths of the project's files that the kernel needs."""


def select(
    translation: Translation,
    kernels: Sequence[Declaration],
    passed: str,
    include_name: Callable[[str], str],
    is_available: Callable[[str], bool],
) -> Kept:
    """The kernels with everything of their file that they name, in the order of the file.

    `passed` is C++ text that its launch names: functions and types as template arguments.
    `include_name` is the name by which a project's file is included, `is_available` whether the
    compiler has a header that is none of the project's.
    """
    pieces = list(_pieces(translation))
    chosen = _chosen(pieces, {kernel.name for kernel in kernels}, passed)
    kept = Kept(_licence(translation.files[translation.main]))
    for piece in pieces:
        if piece in chosen:
            kept.code.append(piece)
        elif piece.label and not piece.is_always_kept:
            kept.left_out.append(f"{piece.label} (line {piece.line})")
    _add_includes(translation, kept, passed, include_name, is_available)
    kept.code[:] = [
        p for p in kept.code if not p.is_always_kept or _names_known(translation, kept, p)
    ]
    return kept


def _names_known(translation: Translation, kept: Kept, using: Piece) -> bool:
    """Whether the namespace of a `using` is declared by what is kept."""
    named = re.search(r"\b(?:namespace\s+(?:\w+\s*=\s*)?|using\s+)([\w:]+)\s*;", using.text)
    if named is None or named[1].startswith(("cooperative_groups", "nvcuda", "cuda", "cub")):
        return True
    is_name = "namespace" not in using.text
    parts = named[1].strip(":").split("::")
    last = parts[-2] if is_name and len(parts) > 1 else parts[-1]
    code = {scope for piece in kept.code for scope in piece.scope}
    headers = {s for d in translation.declarations if d.file in kept.upstream for s in d.scope}
    return last in code | headers


def joined(code: list[Piece]) -> str:
    """The pieces as text, with their namespaces around them again."""
    found: list[str] = []
    scope: tuple[str, ...] = ()
    for piece in code:
        if piece.scope != scope:
            found.extend(f"}}  // namespace {name}".rstrip() for name in reversed(scope))
            found.extend(f"namespace {name} {{".replace("  ", " ") for name in piece.scope)
            scope = piece.scope
        found.append(piece.text)
    found.extend(f"}}  // namespace {name}".rstrip() for name in reversed(scope))
    return "\n\n".join(found)


# -- the parts of a file ---------------------------------------------------------------------------


def _pieces(translation: Translation) -> list[Piece]:
    """The declarations and macros of the main file in order, each place once."""
    found: dict[tuple[int, int], Piece] = {}
    data = translation.files[translation.main].encode()
    for declaration in translation.declarations:
        if declaration.file == translation.main:
            piece = _piece(translation, declaration, data)
            place = (piece.start, piece.end)
            if place in found:  # One line of a macro may declare several.
                defines = found[place].defines | piece.defines
                piece = Piece(**{**vars(piece), "defines": defines})
            found[place] = piece
    for match in _DEFINE.finditer(data.decode(errors="replace")):
        start = len(match.string[: match.start()].encode())
        if not any(p.start <= start < p.end for p in found.values()):
            end = start + len(match[0].encode())
            if not _is_inside(start, translation.skipped):
                line = data.count(b"\n", 0, start) + 1
                names = frozenset({match[1]})
                found[(start, end)] = Piece(match[0], start, end, line, (), names)
    return list(_outermost(sorted(found.values(), key=lambda p: (p.start, -p.end))))


def _outermost(pieces: list[Piece]) -> Iterator[Piece]:
    """The pieces that lie in no other: a variable template is declared in its own declaration."""
    end = -1
    for piece in pieces:
        if piece.start >= end:
            end = piece.end
            yield piece


def _is_inside(place: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in ranges)


def _piece(translation: Translation, declaration: Declaration, data: bytes) -> Piece:
    text = translation.original(declaration).strip()
    if not text.endswith(("}", ";")) or declaration.kind in ("type", "enum", "alias", "variable"):
        text = text.rstrip(";") + ";"
    above = _LEADING_COMMENT.search(data[: declaration.start].decode(errors="replace"))
    if above and not _LICENCE.search(above[0]) and not _PLAN.search(above[0]):
        text = f"{above[0].strip()}\n{text}"
    if declaration.is_kernel:
        text = re.sub(r'\bextern\s+"C"\s+', "", text)
        text = re.sub(r"\bstatic\s+(?=(?:inline\s+)?__global__)", "", text)
    is_using = declaration.kind == "using"
    return Piece(
        text,
        declaration.start,
        declaration.end,
        declaration.line,
        declaration.scope,
        frozenset({declaration.name, *declaration.enumerators}),
        _label(declaration, text),
        _is_host(declaration, text),
        is_using and not _FOREIGN_NAMESPACES.search(text),
        declaration.is_kernel,
    )


def _label(declaration: Declaration, text: str) -> str:
    if declaration.kind == "function":
        name = declaration.name if declaration.name in text else text.partition("(")[0].strip()
        return f"{name}()"
    return one_line(declaration.text.partition("{")[0].partition("=")[0].rstrip(" ;"), 40)


def _is_host(declaration: Declaration, text: str) -> bool:
    if declaration.is_kernel or declaration.is_device:
        return False
    if declaration.kind == "using":
        return _FOREIGN_NAMESPACES.search(text) is not None
    if declaration.kind == "function":
        return declaration.name == "main" or _HOST_MARKS.search(declaration.text) is not None
    return _HOST_TYPES.search(declaration.text) is not None


def _licence(text: str) -> str:
    match = _FILE_COMMENT.match(text)
    found = match[1].strip() if match else ""
    return found if _LICENCE.search(found) and not _PLAN.search(found) else ""


# -- what is needed --------------------------------------------------------------------------------


def _chosen(pieces: list[Piece], kernels: set[str], passed: str) -> list[Piece]:
    """The kernels' parts, and all parts that define a name which a chosen part mentions."""
    chosen = [p for p in pieces if kernels & p.defines and p.is_kernel]
    chosen += [p for p in pieces if p.is_always_kept]
    names = _mentioned(passed).union(*(_mentioned(p.text) for p in chosen))
    while True:
        more = [
            p for p in pieces
            if p not in chosen and not p.is_host and not p.is_kernel and p.defines & names
        ]  # fmt: skip
        if not more:
            return chosen
        chosen += more
        names |= set().union(*(_mentioned(p.text) for p in more))


def _mentioned(text: str) -> set[str]:
    return mentioned(re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL))


# -- includes --------------------------------------------------------------------------------------


def _add_includes(
    translation: Translation,
    kept: Kept,
    passed: str,
    include_name: Callable[[str], str],
    is_available: Callable[[str], bool],
) -> None:
    """The main file's includes that the kernel needs; those of headers that it does not need are
    gone through for CUDA's own, which the kernel may have got through them.
    """
    by_file: dict[str, list[Include]] = {}
    for include in translation.includes:
        by_file.setdefault(include.file, []).append(include)
    code = " ".join([passed, *(p.text for p in kept.code)])
    wanted = _files_needed(translation, code)
    names: dict[str, None] = {}
    upstream: dict[str, None] = {}
    seen: set[str] = set()

    def visit(include: Include) -> None:
        reached = _reached(include.opened, by_file) if include.opened else ()
        if include.opened and wanted.intersection(reached):
            names[f'#include "{include_name(include.opened)}"'] = None
            upstream.update(dict.fromkeys(reached))
        elif include.opened:
            if include.opened not in seen:
                seen.add(include.opened)
                for inner in by_file.get(include.opened, ()):
                    visit(inner)
        elif include.name == "cub/cub.cuh":
            parts = (part for word, part in _CUB.items() if re.search(rf"\b{word}\b", code))
            names.update(dict.fromkeys(f"#include <cub/{part}.cuh>" for part in parts))
        elif is_available(include.name):
            names[f"#include <{include.name}>"] = None
        elif include.file == translation.main:
            kept.left_out.append(f"#include of {include.name} (line {include.line})")
            if include.is_quoted:
                kept.missing_headers.append(include.name)

    for include in by_file.get(translation.main, ()):
        visit(include)
    # Host headers that are left out may have brought CUDA's before those of the project.
    kept.includes.extend(sorted(names, key=lambda name: not name.startswith("#include <cuda_")))
    kept.upstream = tuple(upstream)


@dataclass(frozen=True)
class Switched:
    """Something that the kernel needs and that is only there where a macro is defined."""

    name: str
    macro: str
    file: str
    line: int


def switched_off(translation: Translation, kept: Kept) -> list[Switched]:
    """What the kernel's headers define only under `#ifdef NAME`, for a NAME that nothing defines.

    Build systems define such macros: `-D ENABLE_FP8`.
    """
    declared = {d.name for d in translation.declarations}
    defined = {m[1] for text in translation.files.values() for m in _DEFINE.finditer(text)}
    texts = [(translation.main, " ".join(piece.text for piece in kept.code))]
    texts += [(path, translation.files[path]) for path in kept.upstream]
    needed = set().union(*(_mentioned(text) for _, text in texts)) - declared - defined
    found: dict[str, Switched] = {}
    for file, _ in texts:
        text = translation.files[file]
        for macro, start, end in _switched_parts(text):
            is_set_elsewhere = macro in defined or macro.startswith("_") or "ROCM" in macro
            names = {m[1] for m in _FUNCTION.finditer(text, start, end)} & needed
            if names and not is_set_elsewhere:
                line = text.count("\n", 0, start) + 1
                found.setdefault(macro, Switched(min(names), macro, file, line))
    return list(found.values())


def _switched_parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Each `#ifdef NAME` of a text with where its part begins and ends."""
    opened: list[tuple[str, int]] = []
    for match in _BRANCH.finditer(text):
        if match["begin"] is not None:
            opened.append((match["macro"] or "", match.end()))
        elif opened:
            macro, start = opened.pop()
            if macro:
                yield macro, start, match.start()
            if match["end"] is None:
                opened.append(("", match.end()))


def _reached(file: str, by_file: dict[str, list[Include]]) -> tuple[str, ...]:
    """A project's file and those that it includes, directly or not."""
    found: dict[str, None] = {}
    waiting = [file]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = None
            waiting += [i.opened for i in by_file.get(current, ()) if i.opened]
    return tuple(found)


def _files_needed(translation: Translation, code: str) -> set[str]:
    """The project's files that define a name which the kernel's code mentions, directly or not."""
    defined: dict[str, list[tuple[str, str]]] = {}
    for file, name, text in _definitions(translation):
        defined.setdefault(name, []).append((file, text))
    found: set[str] = set()
    seen: set[str] = set()
    waiting = _mentioned(code)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for file, text in defined.get(name, ()):
            found.add(file)
            waiting |= _mentioned(text) - seen
    return found


def _definitions(translation: Translation) -> Iterator[tuple[str, str, str]]:
    """File, name and text of what the project's headers define.

    What a header only declares and the main file defines is the main file's.
    """
    own = {d.name for d in translation.declarations if d.file == translation.main}
    for declaration in translation.declarations:
        is_declared = declaration.kind == "function" and not declaration.is_definition
        if declaration.file != translation.main and not (is_declared and declaration.name in own):
            text = translation.original(declaration)
            for name in (declaration.name, *declaration.enumerators):
                yield declaration.file, name, text
    for file, text in translation.files.items():
        if file != translation.main:
            for match in _DEFINE.finditer(text):
                yield file, match[1], match[0]


def root_relative(path: str, translation: Translation) -> str:
    """The name of a project's file below the first root that holds it, else below the main file's
    folder, else below the project's, else its own name.
    """
    near = str(Path(translation.main).parent)
    for root in (*translation.roots, near, *translation.project):
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return path.rpartition("/")[2]
