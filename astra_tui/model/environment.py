"""What results depend on besides the sources, how two such environments differ, and what `doctor`
reports of this one.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

import astra_tui
from astra_tui.model.events import EngineStarted
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.state import SessionState

UNKNOWN = "unknown"
NONE = "none"

_PARTS = ("nvidia-cuda-nvrtc", "numpy", "torch", "tree-sitter-cuda", "openai")


def current_versions() -> dict[str, str]:
    """Versions of this program and of the parts that results depend on."""
    from importlib import metadata  # What each start would pay for.

    versions = {"astra-tui": astra_tui.__version__, "python": platform.python_version()}
    for part in _PARTS:
        try:
            versions[part] = metadata.version(part)
        except metadata.PackageNotFoundError:
            continue
    return versions


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A machine as far as results depend on it. `versions` are of programs, by name."""

    host: str
    device: str
    compiler: str
    versions: dict[str, str]
    gpu: GpuIdentity | None = None


class Difference(msgspec.Struct, frozen=True):
    """Something that is not as it was when the session ran."""

    what: str
    recorded: str
    here: str


def recorded_environment(state: SessionState, engine: EngineStarted | None = None) -> Environment:
    """Where a session ran, as its state tells; `engine` is the one that ran last.

    Raises ValueError before it was opened.
    """
    if state.opened is None:
        raise ValueError("a session that was never opened ran nowhere")
    baseline = state.candidate(state.opened.baseline).compilation
    device = state.device
    return Environment(
        host=engine.host if engine else "",
        device=state.device_name,
        compiler=baseline.compiler if baseline else "",
        versions=(engine.versions if engine else {}) or state.opened.versions,
        gpu=device.gpu if device else None,
    )


def differences(recorded: Environment, here: Environment) -> tuple[Difference, ...]:
    """What differs, the most telling first: device, driver, compiler, programs, machine."""
    found = [
        _difference("device", _kind(recorded.device), _kind(here.device)),
        *_gpu_differences(recorded.gpu, here.gpu),
        _difference("compiler", recorded.compiler, here.compiler),
        *(
            _difference(name, recorded.versions.get(name, NONE), here.versions.get(name, NONE))
            for name in sorted({*recorded.versions, *here.versions})
        ),
        _difference("machine", recorded.host, here.host),
    ]
    return tuple(d for d in found if d is not None)


def _kind(device: str) -> str:
    """Without the number of a GPU, which its identity tells better."""
    return device.partition(":")[0]


_GPU_FIELDS = (
    "name", "uuid", "driver", "cuda_driver", "vbios", "sm_count", "memory_bytes", "max_sm_mhz",
    "max_mem_mhz", "power_limit_w", "ecc_enabled", "mig_enabled", "persistence",
)  # fmt: skip


def _gpu_differences(
    recorded: GpuIdentity | None, here: GpuIdentity | None
) -> Iterator[Difference | None]:
    if recorded is None or here is None:
        return
    for field in _GPU_FIELDS:
        before, now = getattr(recorded, field), getattr(here, field)
        yield _difference(f"gpu {field.replace('_', ' ')}", _text(before), _text(now))


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _difference(what: str, recorded: str, here: str) -> Difference | None:
    if recorded == here:
        return None
    return Difference(what, recorded or UNKNOWN, here or UNKNOWN)


class Health(StrEnum):
    """How a probe ended."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class Layer(msgspec.Struct, frozen=True):
    """One thing that a child process has closed to itself, as tries from inside of it show.

    `closed` is only true when every try was made and refused; `detail` says how each ended.
    """

    name: str
    closed: bool
    detail: str


class Probe(msgspec.Struct, frozen=True):
    """One thing that was tried. `gives` says what it is for; `remedy` how to get it."""

    name: str
    health: Health
    detail: str
    gives: str
    remedy: str = ""
    needed: bool = True
    """Whether the emulator and the checks need it."""
    layers: tuple[Layer, ...] = ()
    """What a child process has closed to itself, for probes of containment."""


def lacking_probes(probes: Iterable[Probe]) -> list[str]:
    """What the checks need and do not have."""
    return [p.name for p in probes if p.needed and p.health is not Health.OK]
