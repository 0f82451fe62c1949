"""The GPUs of this machine, as NVML lists them."""

from __future__ import annotations

from astra_tui.gpu.nvml.library import NvmlLibrary
from astra_tui.gpu.nvml.patience import Patience, Unanswered
from astra_tui.gpu.nvml.reader import DEADLINE
from astra_tui.gpu.nvml.refusal import NvmlRefusal


def gpu_uuids(deadline: float = DEADLINE) -> tuple[str, ...]:
    """UUIDs of all GPUs, whether CUDA_VISIBLE_DEVICES shows them or not. Raises NvmlRefusal."""
    patience = Patience(deadline, "nvml listing")
    try:
        return patience.call(_list)
    except Unanswered as error:
        raise NvmlRefusal(f"NVML hangs: {error}") from None
    finally:
        patience.close()


def _list() -> tuple[str, ...]:
    library = NvmlLibrary()
    try:
        return library.uuids()
    finally:
        library.close()
