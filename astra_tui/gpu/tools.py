"""Our own kernels for the GPU processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("tools.cu")
EXPRESSIONS = {
    "draw": "draw",
    "copy16x1": "copy16<1>",
    "copy16x4": "copy16<4>",
    "digest": "digest",
    "empty": "empty",
    "spin": "spin",
    "clock_rate": "clock_rate",
    "stash": "stash",
    "spoil": "spoil",
    "produce": "produce",
    "set_word": "set_word",
}


@dataclass(frozen=True)
class ToolKernels:
    """The compiled tools.cu; `symbols` are lowered names by the names that we use."""

    cubin: bytes
    symbols: dict[str, str]


def tools_source() -> str:
    """The text of tools.cu, with the generator's table in its place."""
    from astra_tui.gpu.drawing import QUANTILES

    text = SOURCE.read_text(encoding="utf-8")
    return text.replace("{QUANTILES}", "{" + ", ".join(map(str, QUANTILES)) + "}")
