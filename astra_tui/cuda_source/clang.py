"""Reads CUDA C++ with libclang, in a process of its own, where a broken source breaks nothing else.

No host compiler and no CUDA toolkit are needed: CUDA's headers come from where the lab has them,
the C++ library and what launchers include from stand-ins (`reading_headers/`). Errors are
tolerated: what is not understood is missing, the rest is read.
"""

from __future__ import annotations

import importlib.util
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.cuda_source.project import Project
from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.cuda_source.translation import Declaration, Include, Launcher, Translation
from astra_tui.model.errors import UserError
from astra_tui.processes.tool import run_tool

READING_SECONDS = 120.0
MAX_ERRORS = 20

_OVERLAY = "/astra-tui-headers"
_PRELUDE = "astra_tui_reading_prelude.h"
_HOST = "astra_tui_host.h"
_HEADERS = Path(__file__).with_name("reading_headers")
_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-nogpulib", "-nogpuinc",
    "-nocudainc", "-nostdinc", "-nostdinc++", "-std=c++20", "-ferror-limit=0", "-Wno-everything",
    # NVRTC's mode of CUDA's headers, the one that needs no headers of the host.
    "-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_RTC__",
    "-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", "-D__CUDACC_VER_BUILD__=88",
    "-D__CUDA_API_VERSION=13000", "-DCUDART_VERSION=13000",
)  # fmt: skip
_DRIVER = (
    "typedef enum { CUDA_SUCCESS = 0 } CUresult;\ntypedef struct CUstream_st* CUstream;\n"
    "template <typename... A> CUresult cuGetErrorString(A&&...);\n"
)
_FLOAT = re.compile(r"(?<![\w.])(\d+\.\d*(?:E[+-]?\d+)?)(F?)(?![\w.])")
_MAX_FLOAT = 3.4e38
_CLASS_CONSTANT = re.compile(r">::\w+\b(?!\s*[(<])")
_WHOLE_NUMBER = 1  # CXEval_Int
_OPTIONS = 0x201  # CXTranslationUnit_KeepGoing, with a record of what the preprocessor did
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_ATTRIBUTES = (
    (re.compile(r"__attribute__\(\((global|device|host)\)\)"), r"__\1__"),
    (re.compile(r"__attribute__\(\(launch_bounds\((.*?)\)\)\)"), r"__launch_bounds__(\1)"),
    (
        re.compile(r"(?m)^(\s*)(extern )?(?:static )?([^;{}()=]*?)\s*__attribute__\(\(shared\)\)"),
        r"\1\2__shared__ \3",
    ),
    (re.compile(r"__attribute__\(\((?:constant)\)\)"), "__constant__"),
    (re.compile(r"\b__restrict\b"), "__restrict__"),  # The grammar knows this spelling best.
    (re.compile(r"<recovery-expr>"), "astra_unknown"),
    (re.compile(r"#pragma unroll \(enable\)"), "#pragma unroll"),
)
_NAMELESS = re.compile(r"\bauto\s*&{0,2}\s*(?==[^=])")
_BINDING = re.compile(r"\bauto\s*&{0,2}\s*(\[[^\]]*\])(?=\s*[=({])")


_PLAIN = frozenset(
    f"{prefix}{name}{suffix}"
    for names, prefix, suffix in (
        ("stdint stddef math float limits assert stdio stdlib string stdbool", "", ".h"),
        ("stdint stddef math float limits assert stdio stdlib string", "c", ""),
        ("algorithm array limits numeric type_traits utility version", "", ""),
    )
    for name in names.split()
)
"""The stand-ins of the compiler that are read too; for all others there is `host.h`."""


class Request(msgspec.Struct, frozen=True):
    """What to read. Folders are searched for includes in order, then those below `project`."""

    path: str
    roots: tuple[str, ...]
    cuda: tuple[str, ...]
    defines: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    launcher: Launcher | None = None


def read_translation(
    path: Path,
    roots: Sequence[Path],
    cuda: Sequence[Path],
    defines: Sequence[str] = (),
    project: Sequence[Path] = (),
    launcher: Launcher | None = None,
) -> Translation:
    """Reads a source and what it includes from `roots`; `cuda` are the folders of CUDA's headers.

    For what is not found there, a folder below those of `project` becomes another root. The text
    of a `launcher` is read as if it stood at the end of the source. Raises UserError where the
    reader cannot be run or does not end well.
    """
    request = Request(
        str(path.resolve()),
        tuple(str(root.resolve()) for root in roots),
        tuple(map(str, cuda)),
        tuple(defines),
        tuple(str(folder.resolve()) for folder in project),
        launcher,
    )
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        asked = Path(folder) / "request.json"
        asked.write_bytes(msgspec.json.encode(request))
        package = str(Path(__file__).resolve().parents[2])
        start = f"import sys; sys.path.insert(0, {package!r}); import {__name__} as it; it.main()"
        command = [sys.executable, "-P", "-c", start, str(asked)]
        ended = run_tool(command, folder, READING_SECONDS, "the CUDA reader")
    if ended.problem:
        raise UserError(f"this source could not be read: {ended.problem}", file=str(path))
    return msgspec.json.decode(ended.text, type=Translation)


def main() -> None:
    """The child: reads the request that argv names, writes the translation to stdout."""
    request = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Request)
    if importlib.util.find_spec("clang") is None:
        sys.exit("libclang is not installed; say: pip install libclang==18.1.1")
    sys.stdout.buffer.write(msgspec.json.encode(read_here(request)))


def read_here(request: Request) -> Translation:
    """What `read_translation` gives, read in this process: a source that libclang does not survive
    ends it.
    """
    return _Reader(request).read()


class _Reader:
    def __init__(self, request: Request):
        import clang.cindex as cindex

        self.cindex = cindex
        self.request = request
        self.roots = list(request.roots)
        self.project = Project([Path(folder) for folder in request.project])
        self._forget()
        self.found: list[Declaration] = []
        self.constants: dict[str, int] = {}
        self.class_sizes: dict[str, int] = {}
        self._pretty, self._policy = _printer(cindex)

    def read(self) -> Translation:
        self._collect_all()
        unit = self._parse()
        self._drop_files_of_dead_branches(unit)
        self._walk(unit.cursor, ())
        return Translation(
            self.request.path,
            self.files,
            tuple(self.found),
            tuple(self.includes),
            tuple(self.roots),
            tuple(name for name in self.missing if name not in STAND_INS),
            tuple(_skipped(self.cindex, unit, self.request.path)),
            tuple(self._errors(unit)),
            tuple(self.notes),
            self.constants,
            self.class_sizes,
            self.request.project,
            self.request.launcher,
        )

    # -- files -------------------------------------------------------------------------------------

    def _collect_all(self) -> None:
        """Reads the project's files, again for as long as that brings folders of more headers."""
        while True:
            self._collect(self.request.path)
            looked_for = (i for i in self.includes if not i.opened and i.name in self.missing)
            found = (self._root_of(include) for include in looked_for)
            new = dict.fromkeys(f for f in found if f is not None and f not in self.roots)
            if not new:
                return
            self.roots += new
            self._forget()

    def _forget(self) -> None:
        self.files: dict[str, str] = {}
        self.includes: list[Include] = []
        self.missing: dict[str, None] = {}
        self.changed: dict[str, str] = {}
        self.notes: list[str] = []

    def _root_of(self, include: Include) -> str | None:
        """The folder of the project below which a header lies; None for none, and for a header
        that is read from a stand-in wherever the project may have a copy of it.
        """
        name = include.name
        if name in STAND_INS or "." not in name or _is_libcudacxx(name):
            return None
        return self.project.include_folder(name, include.file)

    def _collect(self, path: str) -> None:
        """Reads a file of the project and those that it includes; notes what is not to be had."""
        waiting = [path]
        while waiting:
            current = waiting.pop()
            if current in self.files:
                continue
            text = self._text(current)
            self.files[current] = text
            for match in _INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                is_quoted = match[1] == '"'
                opened = self._resolved(match[2], current if is_quoted else "")
                self.includes.append(Include(current, line, match[2], opened or "", is_quoted))
                if opened is None:
                    self.missing[match[2]] = None
                elif opened:
                    waiting.append(opened)

    def _text(self, path: str) -> str:
        """A file's text with plain line ends; one that has others is parsed from here."""
        data = Path(path).read_bytes()
        try:
            raw = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self.notes.append(f"line {line} of {path} is no UTF-8: read as Latin-1")
            raw = data.decode("latin-1")
        launcher = self.request.launcher
        if path == self.request.path and launcher is not None and launcher.text:
            name = re.escape(Path(path).name)
            own = re.compile(
                rf'^[ \t]*#[ \t]*include[ \t]*[<"](?:[^">]*/)?{name}[">]', re.MULTILINE
            )
            raw = f"{raw.rstrip()}\n{own.sub('', launcher.text)}"
        text = raw.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        if text.encode() != data:
            self.changed[path] = text
        return text

    def _resolved(self, name: str, includer: str) -> str | None:
        """The project's file behind a name; "" for CUDA's or a stand-in, None for none."""
        near = [str(Path(includer).parent)] if includer else []
        for folder in (*near, *self.roots):
            path = Path(os.path.normpath(f"{folder}/{name}"))
            if path.is_file():
                return str(path)
        if name in _PLAIN:
            return ""
        is_known = any(Path(c, name).is_file() for c in self.request.cuda)
        return "" if is_known and not _is_libcudacxx(name) else None

    # -- parsing -----------------------------------------------------------------------------------

    def _parse(self) -> Any:
        overlay: Mapping[str, str] = {
            **dict.fromkeys(self.missing, f'#include "{_HOST}"\n'),
            **{name: STAND_INS[name] for name in _PLAIN},
            "initializer_list": "",
            "target": "#include <nv/target>\n",
            "nvrtc_device_runtime.h": "",
            "cuda_runtime.h": "",
            "cuda_runtime_api.h": "",
            "cuda_device_runtime_api.h": "",
            "cuda.h": _DRIVER,
            _PRELUDE: (_HEADERS / "prelude.h").read_text(),
            _HOST: (_HEADERS / "host.h").read_text(),
        }
        # Of CUDA's folders the first: libcu++ lies in the others, and has stand-ins here.
        arguments = [
            *_FLAGS,
            *(f"-D{d}" for d in self.request.defines),
            *("-I", _OVERLAY),
            *(part for root in self.roots for part in ("-I", root)),
            *(part for folder in self.request.cuda[:1] for part in ("-I", folder)),
            *("-include", _PRELUDE),
        ]
        unsaved = [(f"{_OVERLAY}/{name}", text) for name, text in overlay.items()]
        unsaved += self.changed.items()
        return self.cindex.Index.create().parse(
            self.request.path, args=arguments, unsaved_files=unsaved, options=_OPTIONS
        )

    def _errors(self, unit: Any) -> Iterator[str]:
        shown = 0
        for found in unit.diagnostics:
            file = _file_of(found.location)
            if found.severity >= self.cindex.Diagnostic.Error and file in self.files:
                yield f"{file}:{found.location.line}: {found.spelling}"
                shown += 1
                if shown == MAX_ERRORS:
                    return

    def _drop_files_of_dead_branches(self, unit: Any) -> None:
        """What the preprocessor did not open, as an `#include` for another platform."""
        opened = {os.path.normpath(each.include.name) for each in unit.get_includes()}
        opened.add(self.request.path)
        self.missing = {name: None for name in self.missing if f"{_OVERLAY}/{name}" in opened}
        self.files = {path: text for path, text in self.files.items() if path in opened}
        self.includes = [
            i for i in self.includes if i.file in opened and (not i.opened or i.opened in opened)
        ]

    # -- declarations ------------------------------------------------------------------------------

    def _walk(self, above: Any, scope: tuple[str, ...]) -> None:
        kinds = self.cindex.CursorKind
        for cursor in above.get_children():
            if _file_of(cursor.location) not in self.files:
                continue
            if cursor.kind == kinds.NAMESPACE:
                self._walk(cursor, (*scope, cursor.spelling))
            elif (
                cursor.kind in (kinds.LINKAGE_SPEC, kinds.UNEXPOSED_DECL)
                and any(c.kind.is_declaration() for c in cursor.get_children())
                and not cursor.spelling
            ):
                self._walk(cursor, scope)
            elif cursor.kind.is_declaration():
                self.found.append(self._declaration(cursor, scope))

    def _declaration(self, cursor: Any, scope: tuple[str, ...]) -> Declaration:
        kinds = self.cindex.CursorKind
        attributes = {c.kind for c in cursor.get_children()}
        text = self._pretty(cursor, self._policy(cursor))
        for pattern, replacement in _ATTRIBUTES:
            text = pattern.sub(replacement, text)
        text = _FLOAT.sub(_shortest, text)
        kind = _KINDS.get(cursor.kind.name, "other")
        if cursor.kind in (kinds.STRUCT_DECL, kinds.CLASS_DECL) and cursor.type.get_size() > 0:
            self.class_sizes[cursor.spelling] = cursor.type.get_size()
        if kind == "function" and _CLASS_CONSTANT.search(text):
            self.constants.update(_class_constants(self.cindex, cursor))
        start, end = cursor.extent.start, cursor.extent.end
        path = _file_of(cursor.location)
        if _NAMELESS.search(text) and path in self.files:
            written = self.files[path].encode()[start.offset : end.offset]
            text = _with_bindings(text, written.decode(errors="replace"))
        return Declaration(
            cursor.spelling,
            kind,
            scope,
            path,
            start.offset,
            end.offset,
            start.line,
            text if kind == "function" and cursor.is_definition() else f"{text};",
            kinds.CUDAGLOBAL_ATTR in attributes,
            kinds.CUDADEVICE_ATTR in attributes,
            cursor.is_definition(),
            tuple(c.spelling for c in cursor.get_children() if c.kind == kinds.ENUM_CONSTANT_DECL),
            end.line,
        )


_KINDS = {
    "FUNCTION_DECL": "function", "FUNCTION_TEMPLATE": "function", "CXX_METHOD": "function",
    "CONSTRUCTOR": "function", "DESTRUCTOR": "function", "CONVERSION_FUNCTION": "function",
    "STRUCT_DECL": "type", "CLASS_DECL": "type", "UNION_DECL": "type", "CLASS_TEMPLATE": "type",
    "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION": "type", "ENUM_DECL": "enum",
    "TYPEDEF_DECL": "alias", "TYPE_ALIAS_DECL": "alias", "TYPE_ALIAS_TEMPLATE_DECL": "alias",
    "VAR_DECL": "variable", "USING_DECLARATION": "using", "USING_DIRECTIVE": "using",
    "NAMESPACE_ALIAS": "using",
}  # fmt: skip


def _file_of(location: Any) -> str:
    """The path of a place without the `..` by which it was included, "" for none."""
    return os.path.normpath(location.file.name) if location.file is not None else ""


def _with_bindings(printed: str, written: str) -> str:
    """The text with the names of `auto [x, y] = pair`, which libclang's printer leaves out.

    A text stays as it is where macros or dead branches have some of the bindings.
    """
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", written, flags=re.DOTALL)
    names = [" ".join(found[1].split()) for found in _BINDING.finditer(plain)]
    if len(names) != len(_NAMELESS.findall(printed)):
        return printed
    listed = iter(names)
    return _NAMELESS.sub(lambda found: f"{found[0].rstrip()} {next(listed)} ", printed)


def _shortest(match: re.Match[str]) -> str:
    """The shortest text of a number that libclang prints with all its digits: `1e-5f`."""
    value, is_float = float(match[1]), bool(match[2])
    packed = struct.pack("f", value) if is_float and value < _MAX_FLOAT else b""
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        same = struct.pack("f", float(text)) == packed if packed else float(text) == value
        if same:
            break
    text = re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", text)
    return text + ("" if "." in text or "e" in text else ".0") + ("f" if is_float else "")


def _is_libcudacxx(name: str) -> bool:
    """CUDA's own C++ library and CUB take seconds to read, and a stand-in has what is needed."""
    return name.startswith(("cuda/", "cub/", "thrust/"))


def _printer(cindex: Any) -> tuple[Any, Any]:
    """Libclang's printer of declarations, which its Python module does not offer."""
    import ctypes

    library = cindex.conf.lib
    library.clang_getCursorPrintingPolicy.restype = ctypes.c_void_p
    library.clang_getCursorPrintingPolicy.argtypes = [cindex.Cursor]
    library.clang_getCursorPrettyPrinted.restype = cindex._CXString
    library.clang_getCursorPrettyPrinted.argtypes = [cindex.Cursor, ctypes.c_void_p]
    library.clang_getCursorPrettyPrinted.errcheck = cindex._CXString.from_result
    return library.clang_getCursorPrettyPrinted, library.clang_getCursorPrintingPolicy


def _class_constants(cindex: Any, function: Any) -> Iterator[tuple[str, int]]:
    """The whole numbers that a function reads from classes, under their full names."""
    import ctypes

    library = cindex.conf.lib
    library.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    library.clang_Cursor_Evaluate.argtypes = [cindex.Cursor]
    library.clang_EvalResult_getAsInt.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_getKind.argtypes = [ctypes.c_void_p]
    library.clang_EvalResult_dispose.argtypes = [ctypes.c_void_p]
    kinds = cindex.CursorKind
    for cursor in function.walk_preorder():
        named = cursor.referenced if cursor.kind == kinds.DECL_REF_EXPR else None
        if named is None or named.kind != kinds.VAR_DECL:
            continue
        owner = named.semantic_parent
        if owner is None or owner.kind not in (kinds.STRUCT_DECL, kinds.CLASS_DECL):
            continue
        result = library.clang_Cursor_Evaluate(named)
        if result:
            if library.clang_EvalResult_getKind(result) == _WHOLE_NUMBER:
                value = library.clang_EvalResult_getAsInt(result)
                yield f"{owner.type.spelling}::{named.spelling}", value
            library.clang_EvalResult_dispose(result)


def _skipped(cindex: Any, unit: Any, path: str) -> Iterator[tuple[int, int]]:
    """Where the preprocessor left out text of a file, which Python's module does not offer."""
    import ctypes

    class RangeList(ctypes.Structure):
        _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(cindex.SourceRange)))

    library = cindex.conf.lib
    library.clang_getSkippedRanges.restype = ctypes.POINTER(RangeList)
    library.clang_getSkippedRanges.argtypes = [cindex.TranslationUnit, cindex.c_object_p]
    found = library.clang_getSkippedRanges(unit, unit.get_file(path)).contents
    for number in range(found.count):
        yield found.ranges[number].start.offset, found.ranges[number].end.offset
