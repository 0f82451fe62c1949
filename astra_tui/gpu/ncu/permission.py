"""Whether this user may read hardware counters. We never ask for more rights than we have.

See https://developer.nvidia.com/ERR_NVGPUCTRPERM: the driver's parameter RmProfilingAdminOnly says
whether it takes root or CAP_SYS_ADMIN.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
REMEDY = (
    "an administrator can allow it with 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in "
    "/etc/modprobe.d and a reboot; in a container also --cap-add=SYS_ADMIN"
)

_ADMIN_ONLY = re.compile(r"^RmProfilingAdminOnly:\s*(\d+)", re.MULTILINE)
_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)", re.MULTILINE)
_SYS_ADMIN = 21


@dataclass(frozen=True)
class Permission:
    """`allowed` is None where only trying tells; `reason` says what was seen."""

    allowed: bool | None
    reason: str


def may_read_counters(parameters: Path = PARAMETERS, status: Path = STATUS) -> Permission:
    """What the driver's parameters and this process's rights say."""
    found = _ADMIN_ONLY.search(_text(parameters))
    if found is None:
        return Permission(None, f"{parameters} does not say who may read counters")
    if found[1] == "0":
        return Permission(True, "the driver lets every user read counters")
    if os.geteuid() == 0 or _is_admin(_text(status)):
        # In a container root may lack the right all the same.
        return Permission(None, "the driver lets administrators read counters")
    return Permission(False, "the driver lets only administrators read counters")


def _is_admin(status: str) -> bool:
    found = _EFFECTIVE.search(status)
    return found is not None and bool(int(found[1], 16) >> _SYS_ADMIN & 1)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
