"""The result of an export, and what was checked of it where."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Format(StrEnum):
    """The forms in which a winner can leave its session."""

    CU = "cu"
    PATCH = "patch"
    CPP = "cpp"
    TORCH = "torch"
    TVM_FFI = "tvm-ffi"


class Framework(StrEnum):
    """What a winner can be delivered to."""

    TORCH = "torch"
    FLASHINFER = "flashinfer"
    SGLANG = "sglang"
    VLLM = "vllm"
    HF = "hf"


class StepOutcome(StrEnum):
    """How one check of an export ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"
    """What it needs is not on this machine, or it was not asked for."""


class ExportStep(msgspec.Struct, frozen=True):
    """One thing that was checked, or why it was not."""

    name: str
    outcome: StepOutcome
    detail: str


class ExportReport(msgspec.Struct, frozen=True):
    """One export: where it lies, what it consists of, and what was checked."""

    format: Format
    session: str
    task: str
    candidate: str
    folder: str
    """Empty where a check failed: then nothing is left."""
    files: tuple[str, ...]
    steps: tuple[ExportStep, ...]

    @property
    def failed(self) -> bool:
        """Whether some check failed."""
        return any(step.outcome is StepOutcome.FAILED for step in self.steps)


class DeliveryReport(msgspec.Struct, frozen=True):
    """One adapter: where it lies, what it hooks into, and what was checked of it where."""

    framework: Framework
    pinned: tuple[str, ...]
    """Distributions with the versions that it was written against."""
    api: str
    """The framework's function or class that it stands behind."""
    switch: str
    """The environment variable that turns it off."""
    session: str
    task: str
    candidate: str
    archs: tuple[str, ...]
    """For which it carries machine code."""
    measured: str
    """The architecture on which the session timed the winner, or ""."""
    folder: str
    """Empty where a check failed: then nothing is left."""
    files: tuple[str, ...]
    steps: tuple[ExportStep, ...]

    @property
    def failed(self) -> bool:
        """Whether some check failed."""
        return any(step.outcome is StepOutcome.FAILED for step in self.steps)
