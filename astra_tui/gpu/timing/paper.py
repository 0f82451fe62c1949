"""The arithmetic of the Astra paper's protocol (section 4.1)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from astra_tui.gpu.timing.pairing import BadSamples
from astra_tui.model.timing import PaperTime

WARM_UPS = 20
LAUNCHES = 100


def paper_time(base_us: Sequence[float], candidate_us: Sequence[float]) -> PaperTime:
    """Arithmetic means of 100 event pairs each, in microseconds, one pair a launch from the host.

    No offset is subtracted: the time of the launch is meant to be in it. Raises
    BadSamples for another number of launches, which would not be the protocol, and for a time
    that is not finite and above 0.
    """
    for name, times in (("base", base_us), ("candidate", candidate_us)):
        if len(times) != LAUNCHES:
            raise BadSamples(f"the paper's protocol has {LAUNCHES} launches; {name}: {len(times)}")
        for index, time in enumerate(times):
            if not (math.isfinite(time) and time > 0):
                raise BadSamples(f"launch {index} of the {name} took {time} us")
    return PaperTime(statistics.fmean(base_us), statistics.fmean(candidate_us))
