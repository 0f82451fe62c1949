"""The text of a draft's baseline.cu: the kernel, what it needs of its file, and a launch plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.cuda_source.translation import Declaration, Translation
from astra_tui.drafting.answers import Ask
from astra_tui.drafting.expressions import printed
from astra_tui.drafting.geometry import LaunchDraft
from astra_tui.drafting.pieces import (
    TORCH_ELEMENT,
    Piece,
    joined,
    root_relative,
    select,
    switched_off,
)
from astra_tui.drafting.reading import KernelFunction
from astra_tui.drafting.template_arguments import TORCH_TYPE
from astra_tui.model.dtypes import DType
from astra_tui.model.launch.expression import Expression

_FOR_LAUNCHERS = re.compile(
    r"(?:torch|ATen|c10|tvm|dlpack|pybind11|sgl_kernel)/|cublas|cuda(?:_(?:runtime|profiler)(?:_api)?)?\.h$"
    r"|(?:string|vector|deque|\w*stream|iomanip|mutex|memory|functional|stdexcept|exception|optional"
    r"|variant|ranges|span|source_location|initializer_list|string_view|version)$"
)
"""Headers that only host code needs; nvcc includes cuda_runtime.h by itself."""

_OF_LIBRARIES = {
    "type_traits": re.compile(r"\bstd::(?:is_|enable_if|conditional|remove_|decay|integral_const)"),
    "limits": re.compile(r"\bstd::numeric_limits\b"),
    "algorithm": re.compile(r"\bstd::(?:min|max|clamp)\b"),
    "c10/macros/Macros.h": re.compile(r"\bC10_[A-Z]"),
}
"""Headers of libraries by what kernels use of them."""

_QUOTED = re.compile(r'"([^"]*)"')
_CUDA_HEADERS = re.compile(
    r"cuda[\w/]*\.hp?p?|cub/.*|cuda/\w+|cuda/std/.*|mma\.h|cooperative_groups.*"
)


def plan_text(
    kernel: KernelFunction,
    launch: LaunchDraft,
    arguments: tuple[str, ...],
    accepts: tuple[str, ...],
) -> str:
    """The launch plan in its own language; it refuses what the contract does not accept."""
    template = f"<{', '.join(launch.template)}>" if launch.template else ""
    line = f"{kernel.qualified}{template} grid={_sizes(launch.grid or ())}"
    line += f" block={_sizes(launch.block)}"
    if launch.shared:
        line += f" shared={launch.shared}"
    if launch.pdl:
        line += " pdl=true"
    text = f"{line}\n    args=({', '.join(arguments)})"
    if not accepts:
        return text
    inner = text.replace("\n", "\n    ")
    return f"when {' and '.join(accepts)}:\n    {inner}"


def _sizes(parts: tuple[Expression, ...]) -> str:
    shown = [printed(part) for part in parts] or ["1"]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


@dataclass(frozen=True)
class Baseline:
    """The text of baseline.cu, and the paths of its project's headers by the names of includes.

    `unread` is what may be missing from it, in words.
    """

    text: str
    upstream: dict[str, str]
    unread: tuple[str, ...]


def baseline_text(
    translation: Translation,
    kernels: Sequence[Declaration],
    dtypes: tuple[DType, ...],
    plan: str,
    definitions: tuple[str, ...],
    ask: Ask,
) -> Baseline:
    """The whole file. What of the source is left out becomes a point.

    `definitions` are functions of the engineer's that the launch passes.
    """

    def include_name(path: str) -> str:
        return root_relative(path, translation)

    passed = " ".join(_QUOTED.findall(plan))
    kept = select(translation, kernels, passed, include_name, _is_available)
    if kept.left_out:
        ask("left out of baseline.cu: " + ", ".join(kept.left_out))
    for header in kept.missing_headers:
        ask(f'copy what the kernel needs of "{header}" into baseline.cu, or name its folder: -I')
    for part in switched_off(translation, kept):
        place = f"{include_name(part.file)}:{part.line}"
        ask(
            f"{part.name}() is only there where {part.macro} is defined ({place}): "
            f"-D {part.macro}, as the project's build may do",
            "define",
        )
    parts = [
        kept.licence,
        f"/* From {Path(translation.main).name}; host code left out. */",
        "\n".join([*kept.includes, *_missing_includes(kept.includes, kept.code, dtypes)]),
        _plan_comment(plan),
        _torch_types(dtypes) if f"{TORCH_TYPE}<" in plan else "",
        *definitions,
        joined(kept.code),
    ]
    parts[2] += _torch_includes("\n".join(parts[3:]))
    text = "\n\n".join(part for part in parts if part) + "\n"
    used = {translation.main, *kept.upstream}
    return Baseline(
        text,
        {include_name(path): path for path in kept.upstream},
        tuple(_unread(translation, used)),
    )


def _unread(translation: Translation, used: set[str]) -> Iterator[str]:
    """What of these files was not found or not understood, a line each."""
    lost = [
        include
        for include in translation.includes
        if include.file in used
        and include.name in translation.missing
        and "." in include.name  # Others are the C++ library's.
        and (include.file != translation.main or not _FOR_LAUNCHERS.match(include.name))
        and not _is_available(include.name)
    ]
    if lost:
        names = ", ".join(dict.fromkeys(i.name for i in lost))
        yield f"headers that were not found: {names}; name their folders with -I"
    errors = [e for e in translation.errors if e.partition(":")[0] in used]
    if errors:
        file, _, rest = errors[0].partition(":")
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield f"not understood: {root_relative(file, translation)}:{rest}{more}"


def including_text(
    translation: Translation,
    dtypes: tuple[DType, ...],
    plan: str,
    definitions: tuple[str, ...],
) -> Baseline:
    """A file that includes the source as it is: it holds the launch, and `definitions` for it."""
    main = root_relative(translation.main, translation)
    includes = [f'#include "{main}"']
    parts = [
        "\n".join([*includes, *_missing_includes(includes, [], dtypes)]),
        _plan_comment(plan),
        _torch_types(dtypes) if f"{TORCH_TYPE}<" in plan else "",
        *definitions,
    ]
    parts[0] += _torch_includes("\n".join(parts[1:]))
    text = "\n\n".join(part for part in parts if part) + "\n"
    upstream = {root_relative(path, translation): path for path in translation.files}
    return Baseline(text, upstream, tuple(_unread(translation, set(translation.files))))


def _plan_comment(plan: str) -> str:
    shown = "\n".join(f"   {line}" for line in plan.split("\n"))
    return f"/* @launch\n{shown}\n*/"


def _missing_includes(
    includes: list[str], code: list[Piece], dtypes: tuple[DType, ...]
) -> list[str]:
    """The headers of element types and of libraries that the source got through others."""
    text = "\n".join(includes)
    code_text = "\n".join(piece.text for piece in code)
    needed = dict.fromkeys(d.header for d in dtypes if d.header)
    needed |= {header: None for header, names in _OF_LIBRARIES.items() if names.search(code_text)}
    return [f"#include <{header}>" for header in needed if header not in text]


def _torch_types(dtypes: tuple[DType, ...]) -> str:
    """An alias template for the types that PyTorch's launchers instantiate kernels with."""
    lines = [
        "// PyTorch's types of elements: its launchers instantiate kernels with them.",
        "template <typename T> struct TorchType { using type = T; };",
        *(
            f"template <> struct TorchType<{d.cuda}> {{ using type = {d.torch_cuda}; }};"
            for d in dtypes if d.torch_cuda
        ),
        f"template <typename T> using {TORCH_TYPE} = typename TorchType<T>::type;",
    ]  # fmt: skip
    return "\n".join(lines)


def _torch_includes(code: str) -> str:
    """The headers of PyTorch's element types that a text names."""
    named = sorted({match[1] for match in TORCH_ELEMENT.finditer(code)})
    return "".join(f"\n#include <torch/headeronly/util/{name}.h>" for name in named)


def _is_available(header: str) -> bool:
    """Whether the lab's compiler has a header: CUDA's own, or a stand-in."""
    if _FOR_LAUNCHERS.match(header):
        return False
    return header in STAND_INS or _CUDA_HEADERS.fullmatch(header) is not None
