"""The process that asks the gate about kernels of the zoo, one after the other.

Started as `python -m astra_tui.lab.audit.worker READ_FD WRITE_FD DEVICE SEED`.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import msgspec

from astra_tui.lab.audit.gate import Gate
from astra_tui.lab.requests import Judge, Judged
from astra_tui.model.audit import Outcome
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame
from astra_tui.rpc import serve


class _OutOfTime(BaseException):
    """The CPU time for one kernel is spent; nothing may take it for an error of its own."""


def main() -> None:
    """Answers requests until no one asks any more; ends itself after a hang."""
    read_fd, write_fd, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    seed = int(sys.argv[4])
    exit_with_parent(read_fd)
    signal.signal(signal.SIGPROF, _out_of_time)
    gate = Gate(device, seed)
    while True:
        try:
            request = msgspec.convert(read_frame(read_fd), Judge)
        except FrameError:
            return
        judged = _judged(gate, request)
        serve(iter((judged,)), lambda message: write_frame(write_fd, message))
        if judged.outcome is Outcome.HANG:
            return  # What was interrupted may be in no state to continue.


def _judged(gate: Gate, request: Judge) -> Judged:
    begun = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, request.seconds)
        source = Path(request.folder), request.name, request.text
        if request.timed:
            outcome, message = gate.time(*source)
        else:
            outcome, message = gate.judge(*source, request.original, request.rulings)
    except _OutOfTime:
        outcome, message = Outcome.HANG, f"no verdict after {request.seconds:g} s of CPU time"
    except Exception as error:
        outcome, message = Outcome.TROUBLE, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Judged(outcome, message, round(time.process_time() - begun, 2))


def _out_of_time(*_: object) -> None:
    raise _OutOfTime


if __name__ == "__main__":
    main()
