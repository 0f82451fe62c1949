"""The text of a draft's baseline.cu: the kernel, what it needs of its file, and a launch plan."""

from __future__ import annotations

import re

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.drafting.elements import Ask
from astra_tui.drafting.expressions import printed
from astra_tui.drafting.geometry import LaunchDraft
from astra_tui.drafting.pieces import joined, select
from astra_tui.drafting.reading import KernelText, SourceText
from astra_tui.model.dtypes import DType
from astra_tui.model.launch.expression import Expression

_CUDA_HEADERS = re.compile(r"cuda[\w/]*\.hp?p?|cub/.*|cuda/std/.*|mma\.h|cooperative_groups.*")


def plan_text(
    kernel: KernelText,
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
    text = f"{line}\n    args=({', '.join(arguments)})"
    if not accepts:
        return text
    inner = text.replace("\n", "\n    ")
    return f"when {' and '.join(accepts)}:\n    {inner}"


def _sizes(parts: tuple[Expression, ...]) -> str:
    shown = [printed(part) for part in parts] or ["1"]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def baseline_text(
    source: SourceText,
    kernel: KernelText,
    dtypes: tuple[DType, ...],
    file: str,
    plan: str,
    ask: Ask,
) -> str:
    """The whole file. What of the source is left out becomes a point."""
    kept = select(source.root, kernel.node, _is_available)
    if kept.left_out:
        ask("left out of baseline.cu: " + ", ".join(kept.left_out))
    for header in kept.missing_headers:
        ask(f'copy what the kernel needs of "{header}" into baseline.cu')
    shown = "\n".join(f"   {line}" for line in plan.split("\n"))
    parts = [
        kept.licence,
        f"/* From {file}; host code left out. */",
        "\n".join([*kept.includes, *_missing_includes(kept.includes, dtypes)]),
        f"/* @launch\n{shown}\n*/",
        joined(kept.code),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _missing_includes(includes: list[str], dtypes: tuple[DType, ...]) -> list[str]:
    """The headers of the element types that the source got through a header of its framework."""
    text = "\n".join(includes)
    needed = dict.fromkeys(d.header for d in dtypes if d.header)
    return [f"#include <{header}>" for header in needed if header not in text]


def _is_available(header: str) -> bool:
    """Whether the lab's compiler has a header: CUDA's own, or a stand-in."""
    return header in STAND_INS or _CUDA_HEADERS.fullmatch(header) is not None
