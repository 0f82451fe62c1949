"""The result of an export, and what was checked of it where."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Format(StrEnum):
    """The forms in which a winner can leave its session, each with what it is."""

    about: str

    def __new__(cls, name: str, about: str = "") -> Format:
        """A form by its name on the command line."""
        found = str.__new__(cls, name)
        found._value_ = name
        found.about = about
        return found

    CU = "cu", "the kernel source with its launch plan"
    PATCH = "patch", "a unified diff from the session's baseline"
    CPP = "cpp", "CUDA C++ with a C interface: a launcher that is generated from the launch plan"
    TORCH = "torch", "a Python package with a PyTorch operator, which needs no compiler"
    TVM_FFI = "tvm-ffi", "the C++ project with an entry for TVM-FFI, which takes DLPack tensors"


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
