"""What NVML's error codes mean to an engineer."""

from __future__ import annotations

_REASONS = {
    1: "NVML is closed",
    3: "not supported by this GPU",
    4: "not permitted to this user",
    6: "no GPU with this UUID or PCI bus id",
    8: "the GPU's power cables are not connected",
    9: "the NVIDIA driver is not loaded",
    10: "the driver did not answer in time",
    12: "no NVIDIA driver here: libnvidia-ml.so.1 was not found",
    13: "not known to this driver's NVML",
    15: "the GPU is lost: it no longer answers on the bus",
    16: "the GPU needs a reset",
    18: "driver and NVML library differ in version: load the updated driver, or restart",
    21: "no data yet",
}
"""By code of nvmlReturn_t in nvml.h."""

NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13


class NvmlRefusal(Exception):
    """NVML gave no answer. The text says why; `code` is its nvmlReturn_t, 0 if it has none."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code

    @property
    def unsupported(self) -> bool:
        """Whether the GPU or its driver does not know the question."""
        return self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)


def refusal(code: int, text: str = "") -> NvmlRefusal:
    """The refusal of an error code; `text` is NVML's own name for it."""
    named = f"NVML error {code}: {text}" if text else f"NVML error {code}"
    return NvmlRefusal(_REASONS.get(code, named), code)
