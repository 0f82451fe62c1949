"""What a confined process can reach, proven by having it try; for `doctor` and tests."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_tui.model.environment import Health, Layer, Probe
from astra_tui.model.errors import UserError
from astra_tui.processes.child import ChildDied, ChildTimeout
from astra_tui.processes.escapes import Targets

_TRIES = {
    "files": ("read a file", "write a file"),
    "network": ("connect by TCP", "send by UDP", "open a local socket"),
    "environment": ("read the environment of its owners",),
    "processes": ("fork", "start a program", "signal its owner"),
}


def probe_containment(
    name: str, gives: str, outcomes: Callable[[Targets], dict[str, str]]
) -> Probe:
    """What a child process of ours can reach, by its own tries at things of this process.

    `outcomes` has the process try these (`try_escapes`). A process that cannot be asked, by a
    ChildDied, ChildTimeout, UserError or OSError, is MISSING.
    """
    name = f"{name}, closed"
    try:
        with tempfile.TemporaryDirectory(prefix="astra-canary-") as folder, _ports() as ports:
            canary = Path(folder) / "canary"
            canary.write_text("astra")
            owners = os.getpid(), os.getppid()
            targets = Targets(str(canary), str(Path(folder) / "new"), *ports, owners)
            layers = layers_of(outcomes(targets))
    except (ChildDied, ChildTimeout, UserError, OSError) as error:
        return Probe(name, Health.MISSING, str(error).strip().splitlines()[-1], gives, needed=False)
    still_open = [layer for layer in layers if not layer.closed]
    if not still_open:
        names = ", ".join(layer.name for layer in layers)
        return Probe(name, Health.OK, f"proven: {names}", gives, needed=False, layers=layers)
    detail = "OPEN: " + "; ".join(f"{layer.name}: {layer.detail}" for layer in still_open)
    remedy = "a Linux kernel with Landlock (5.13 or newer) and seccomp; see docs/security.md"
    return Probe(name, Health.MISSING, detail, gives, remedy, needed=False, layers=layers)


@contextmanager
def _ports() -> Iterator[tuple[int, int]]:
    """Ports of this machine that take connections by TCP, and packets by UDP."""
    here = "127.0.0.1", 0
    with socket.create_server(here) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(here)
        yield tcp.getsockname()[1], udp.getsockname()[1]


def layers_of(outcomes: dict[str, str]) -> tuple[Layer, ...]:
    """What the tries prove, layer by layer."""
    return tuple(_layer(name, tries, outcomes) for name, tries in _TRIES.items())


def _layer(name: str, tries: tuple[str, ...], outcomes: dict[str, str]) -> Layer:
    done = [t for t in tries if not outcomes.get(t, "not tried")]
    if done:
        return Layer(name, False, f"it could {', '.join(done)}")
    missing = [t for t in tries if t not in outcomes]
    if missing:
        return Layer(name, False, f"not tried: {', '.join(missing)}")
    return Layer(name, True, "; ".join(f"{t}: {outcomes[t]}" for t in tries))
