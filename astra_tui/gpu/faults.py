"""Errors of the CUDA driver in the words of findings."""

from __future__ import annotations

from astra_tui.gpu.gpu_process import CudaFailed, GpuFailure, GpuHung
from astra_tui.model.findings import Finding, FindingKind

_KINDS = {
    2: FindingKind.OUT_OF_RESOURCES,
    226: FindingKind.HARDWARE,
    214: FindingKind.HARDWARE,
    700: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    701: FindingKind.OUT_OF_RESOURCES,
    702: FindingKind.HANG,
    710: FindingKind.ASSERTION,
    714: FindingKind.HARDWARE,
    715: FindingKind.TRAP,
    716: FindingKind.MISALIGNED,
    717: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    718: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    719: FindingKind.TRAP,
}

_SHARED_REFUSED = "cuFuncSetAttribute: "
"""Dynamic shared memory is all that is asked for there; the driver says "invalid value"."""


def finding_of(error: GpuFailure) -> Finding:
    """What a failed run says about the candidate."""
    if isinstance(error, GpuHung):
        return Finding(FindingKind.HANG, str(error))
    if isinstance(error, CudaFailed):
        if str(error).startswith(_SHARED_REFUSED):
            text = f"more shared memory than a block may have ({error})"
            return Finding(FindingKind.OUT_OF_RESOURCES, text)
        kind = _KINDS.get(error.code, FindingKind.LAUNCH_FAILED)
        return Finding(kind, str(error))
    return Finding(FindingKind.LAUNCH_FAILED, str(error))
