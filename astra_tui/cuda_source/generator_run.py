"""Runs a project's Python that writes launchers, in a process that closed itself before.

Started by `launchers.py`. Of what the Python imports, its own project's modules and Python's run;
all others, torch among them, are stand-ins which take any call. What functions of the project pass
on or return is looked through for a text that launches the kernel; no compiler is reached.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import inspect
import itertools
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.cuda_source.launchers import GeneratorRequest
from astra_tui.cuda_source.translation import Choice, Launcher, Rendering, Value
from astra_tui.processes.confine import confine, limit_files, program_roots

_MEMORY_FOR_FILES = 64 << 20
_NUMBERS = (
    *(128, 64, 256, 512, 1024, 2048, 4096, 16, 32, 8, 1, 2, 4, 0),
    *(96, 192, 320, 384, 576, 768, 1536, 2560, 5120, 8192),
)
"""Tried for a whole number of which the source says nothing."""
_OF_SEVERAL = {1: len(_NUMBERS), 2: len(_NUMBERS), 3: 8}
"""How many of them are tried of each, by how many such parameters there are."""
_FEW = 3
_WITHOUT_STAND_IN = frozenset({*sys.stdlib_module_names, "jinja2", "markupsafe"})
_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w*Kernel\w*\s*\(")
_TEMPLATE_MARKS = re.compile(r"\{%|\{\{\s*\w")


def main() -> None:
    """Reads the request that argv names, and writes what was found to stdout."""
    file = Path(sys.argv[1])
    request = msgspec.json.decode(file.read_bytes(), type=GeneratorRequest)
    sys.path[:] = [p for p in sys.path if p]
    import jinja2  # noqa: F401 - so that its modules are here before files are closed.

    limit_files(_MEMORY_FOR_FILES)
    roots = [*program_roots(), *map(Path, request.folders)]
    confine(roots, workshop=file.parent)
    os.environ["HOME"] = str(file.parent)
    with contextlib.redirect_stdout(sys.stderr):
        found = run(request)
    sys.stdout.write(f"\n{msgspec.json.encode(found).decode()}")
    sys.stdout.flush()
    os._exit(0)  # What a project has set up needs no tearing down.


def run(request: GeneratorRequest) -> Launcher:
    """What a function of the request's file writes; `problem` where none writes a launch."""
    finder = _Finder(Path(request.file), [Path(f) for f in request.folders])
    sys.meta_path.insert(0, finder)
    problem = ""
    try:
        module = importlib.import_module(finder.name)
        loaded(module)
    except Exception as error:
        return Launcher(request.file, problem=f"its import fails: {_shown(error)}")
    tree = ast.parse(Path(request.file).read_text(errors="replace"))
    nodes = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for name in request.functions:
        function = inspect.unwrap(getattr(module, name, None) or _nothing)
        if not inspect.isfunction(function):
            continue
        ways = _ways(function, nodes[name], module, request.given)
        if ways is None:
            problem = problem or f"{name}() takes what nothing here says"
            continue
        found = _launcher(request, function, ways)
        if not found.problem:
            return msgspec.structs.replace(found, function=name)
        problem = problem or found.problem
    return Launcher(request.file, problem=problem or "it wrote no launch")


def _launcher(
    request: GeneratorRequest, function: Callable[..., Any], ways: Mapping[str, Sequence[Any]]
) -> Launcher:
    """The first host code that a function writes, or the template arguments that it names."""
    renderings: list[Rendering] = []
    problem = ""
    first: dict[str, Any] = {}
    for given in _calls(ways):
        text, arguments, said = _written_by(function, given, request.names)
        problem = problem or said
        if text or arguments:
            first = first or given
        if text:
            return Launcher(request.file, text, choices=_choices(ways, given))
        if arguments:
            plain = {name: _plain(value) for name, value in given.items()}
            renderings.append(Rendering(plain, arguments))
    if renderings:
        return Launcher(request.file, renderings=tuple(renderings), choices=_choices(ways, first))
    return Launcher(request.file, problem=problem or "it wrote no launch")


def _choices(ways: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> tuple[Choice, ...]:
    return tuple(
        Choice(name, _plain(value), tuple(_plain(v) for v in ways[name] if v != value))
        for name, value in given.items()
    )


def _nothing() -> None:
    """In place of what is no function."""


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


# -- calls -----------------------------------------------------------------------------------------


def _ways(
    function: Callable[..., Any],
    node: ast.FunctionDef,
    module: types.ModuleType,
    given: Mapping[str, Value],
) -> dict[str, list[Any]] | None:
    """Values to try of each parameter, None where nothing says what one may be."""
    found: dict[str, list[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        values = list(_values(name, parameter, node, module))
        if name in given:
            wanted = [v for v in values if _plain(v) == given[name]] or [given[name]]
            values = [*wanted, *(v for v in values if v not in wanted)]
        if not values:
            return None
        found[name] = values
    return found


def _values(
    name: str, parameter: inspect.Parameter, node: ast.FunctionDef, module: types.ModuleType
) -> Iterator[Any]:
    """A default, the keys of a table that the function looks the parameter up in, a type's values.

    A parameter that is passed on with the value of such a table gets them by the name as well.
    """
    kind = str(parameter.annotation)
    if parameter.default is not parameter.empty and not isinstance(parameter.default, StandIn):
        yield parameter.default
    elif "dtype" in kind:
        yield from _DTYPES.values()
    elif kind in ("bool", "<class 'bool'>"):
        yield from (False, True)
    elif kind in ("int", "<class 'int'>"):
        yield from _NUMBERS
    else:
        yield from re.findall(r"Literal\[.*?\]", kind) and re.findall(r"'([^']*)'", kind)
        for table in _tables(name, node):
            found = getattr(module, table, None)
            if isinstance(found, Mapping):
                yield from found


def _tables(name: str, node: ast.FunctionDef) -> Iterator[str]:
    """The tables that a function looks a parameter up in: `TABLE[name]`."""
    for each in ast.walk(node):
        match each:
            case ast.Subscript(value=ast.Name(id=table), slice=ast.Name(id=key)) if key == name:
                yield table


def _calls(ways: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Calls to try: all numbers with each other, and of all else the first value."""
    numbers = [name for name, values in ways.items() if len(values) >= len(_NUMBERS)]
    most = _OF_SEVERAL.get(len(numbers), _FEW)
    tried = (values[:most] if name in numbers else values[:1] for name, values in ways.items())
    for values in itertools.product(*tried):
        yield dict(zip(ways, values, strict=True))


def _written_by(
    function: Callable[..., Any], given: Mapping[str, Any], names: Sequence[str]
) -> tuple[str, dict[str, tuple[str, ...]], str]:
    """What a call passes on or returns that is about the kernel, and how the call ended.

    It is the last text that launches, and the arguments of the templates among `names`.
    """
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    whole: list[str] = []
    arguments: dict[str, tuple[str, ...]] = {}

    def look(value: object) -> None:
        for text in _texts(value, 0):
            if not wanted.search(text) or _TEMPLATE_MARKS.search(text):
                continue
            if _LAUNCH.search(text):
                whole.append(text)
            for match in re.finditer(rf"{wanted.pattern}<([^<>(){{}}]*)>", text):
                listed = tuple(part.strip() for part in match[2].split(","))
                arguments.setdefault(match[1], listed)
                raise _Named

    def watch(frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call":
            look(list(frame.f_locals.values()))
        elif event == "return":
            look(argument)

    problem = ""
    sys.setprofile(watch)
    try:
        function(**given)
    except _Named:
        pass
    except Exception as error:
        sys.setprofile(None)
        problem = _shown(error)
    finally:
        sys.setprofile(None)
    return (whole[-1] if whole else ""), arguments, problem


class _Named(BaseException):
    """Ends a call that has named the template arguments; what it would do next is a build."""


def _texts(value: object, depth: int) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif isinstance(value, (list, tuple)) and depth < 3:
        for each in value[:64]:
            yield from _texts(each, depth + 1)
    elif type(value) is dict and depth < 3:
        for each in list(value.values())[:64]:
            yield from _texts(each, depth + 1)


def _plain(value: object) -> Value:
    return value if isinstance(value, (bool, int, str)) else str(value)


# -- stand-ins -------------------------------------------------------------------------------------


class StandIn:
    """Anything of a module that is not here: it takes every call, and gives itself back."""

    def __init__(self, name: str):
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and not named and inspect.isfunction(given[0]):
            return given[0]  # It decorates.
        return StandIn(f"{self._name}()")

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __getitem__(self, _key: object) -> StandIn:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __or__(self, _other: object) -> StandIn:
        return self

    __ror__ = __truediv__ = __or__

    def __fspath__(self) -> str:
        return str(Path.home() / re.sub(r"\W", "_", self._name))

    def __str__(self) -> str:
        return str(self._name)

    __repr__ = __str__


class _Dtype:
    """An element type of torch."""

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    __repr__ = __str__


_Dtype.__qualname__, _Dtype.__module__ = "dtype", "torch"
_DTYPES = {name: _Dtype(name) for name in ("float16", "bfloat16", "float32")}
_OTHER_DTYPES = (
    *("float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
)


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


def _torch() -> types.ModuleType:
    """What generators ask of torch: element types, and facts of an H100."""
    torch: Any = _StandInModule("torch")
    torch.dtype = _Dtype
    for name, dtype in _DTYPES.items():
        setattr(torch, name, dtype)
    for name in _OTHER_DTYPES:
        setattr(torch, name, _Dtype(name))
    torch.half = torch.float16
    torch.version = types.SimpleNamespace(cuda="13.0", hip=None, musa=None)
    torch.__version__ = "2.11.0"
    torch.cuda = _StandInModule("torch.cuda")
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.get_device_name = lambda _device=None: "NVIDIA H100"
    torch.cuda.get_device_capability = lambda _device=None: (9, 0)
    module: types.ModuleType = torch
    return module


# -- imports ---------------------------------------------------------------------------------------


class _State(enum.Enum):
    FOUND = enum.auto()
    LOADING = enum.auto()
    LOADED = enum.auto()


class _ProjectModule(types.ModuleType):
    """A module of the project, which runs when something of it is first asked for.

    So a package's modules run without all that the package imports at its top. What one does not
    have, or does not come to since it fails, is a stand-in.
    """

    _astra_state = _State.FOUND

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        with contextlib.suppress(ImportError):
            if hasattr(self, "__path__") and _is_below(self.__path__, name):
                return importlib.import_module(f"{self.__name__}.{name}")
        with contextlib.suppress(Exception):
            loaded(self)
        if name in self.__dict__:
            return self.__dict__[name]
        return StandIn(f"{self.__name__}.{name}")


def _is_below(folders: Iterable[str], name: str) -> bool:
    return any(Path(f, f"{name}.py").is_file() or Path(f, name).is_dir() for f in folders)


def loaded(module: types.ModuleType) -> None:
    """Runs a module of the project, once. Raises what it raises."""
    state: Any = module
    if isinstance(module, _ProjectModule) and state._astra_state is _State.FOUND:
        state._astra_state = _State.LOADING
        file = module.__dict__.get("__file__")
        if file:
            code = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
            exec(code, module.__dict__)
        state._astra_state = _State.LOADED


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the project's modules; gives a stand-in for all others that are not Python's."""

    def __init__(self, file: Path, folders: Sequence[Path]):
        top = file.parent
        while (top / "__init__.py").is_file():
            top = top.parent
        self.folders = [top, *folders]
        self.name = ".".join(file.relative_to(top).with_suffix("").parts)

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        first = name.partition(".")[0]
        if first in _WITHOUT_STAND_IN or first == "astra_tui":
            return None
        for folder in self.folders if first != "torch" else ():
            place = folder.joinpath(*name.split("."))
            if place.with_suffix(".py").is_file() or place.is_dir():
                spec = importlib.machinery.ModuleSpec(name, self, is_package=place.is_dir())
                file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
                spec.origin = str(file) if file.is_file() else None
                spec.has_location = file.is_file()
                if place.is_dir():
                    spec.submodule_search_locations = [str(place)]
                return spec
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.origin or spec.submodule_search_locations:
            return _ProjectModule(spec.name)
        return _torch() if spec.name == "torch" else _StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """A module runs when it is asked for something."""
