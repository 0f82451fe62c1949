"""Times the diff pane on a 2,000-line source: time to the first painting, and frames of scrolling.

    python benchmarks/diff_pane.py [--lines N] [--frames N] [--write]

The app runs without a terminal, on a screen of 140x40. "Show" is from `DiffPane.show` until the
screen has been composed with the diff on it, each time from nothing; "frame" is from a scroll
until its lines have been rendered to terminal codes, with and without new lines on the screen.
"Longest hold" is how long the event loop was kept from anything else while colours arrived. Kernels
are synthetic; the start of the app is not included. `--write` stores results/diff_pane.json.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from environment import RESULTS, describe
from textual.app import App, ComposeResult

from astra_tui.tui.text.document import document_of
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.diff.rows import DiffView

SCREEN = (140, 40)
SHOWS = 9
_TICK = 0.001

_BODY = """
template <typename T>
__global__ void kernel_{n}(T* __restrict__ out, const T* __restrict__ input, int64_t d) {{
  __shared__ float partial[32];
  const int64_t token = blockIdx.x;  // one block a row
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {{
    const float x = (float)input[token * d + i + {n}];
    sum += x * x;
  }}
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {{
    sum += __shfl_down_sync(0xffffffffu, sum, offset);
  }}
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = sum;
  __syncthreads();
  out[token * d + threadIdx.x] = (T)(partial[0] * rsqrtf({n}.0f));
}}
"""


def kernel(lines: int) -> str:
    """A source of about so many lines."""
    count = lines // _BODY.count("\n")
    return "".join(_BODY.format(n=n) for n in range(count))


def edits(old: str) -> dict[str, str]:
    """The kinds of changes that are timed: new texts by name."""
    lines = old.splitlines(keepends=True)
    chosen = set(random.Random(1).sample(range(len(lines)), len(lines) // 40))
    some = [
        line.replace("x", "xx").replace("}", "} //") if i in chosen else line
        for i, line in enumerate(lines)
    ]
    return {
        "2.5 % of lines": "".join(some),
        "every line": "".join("  " + line for line in lines),
        "unrelated": kernel(len(lines)).replace("sum", "total").replace("float", "double"),
    }


class PaneApp(App[None]):
    """A screen with a diff pane on it."""

    def compose(self) -> ComposeResult:
        """The pane alone."""
        yield DiffPane(id="diff")


async def measure(old: str, new: str, side_by_side: bool, frames: int) -> dict[str, Any]:
    """One diff, from being given to the end of scrolling."""
    app = PaneApp()
    async with app.run_test(size=SCREEN) as pilot:
        pane = app.query_one(DiffPane)
        pane.lines.side_by_side = side_by_side
        pane.focus()
        await pilot.pause()
        shows = []
        for _ in range(SHOWS):
            document_of.cache_clear()
            pane.show(None)
            compose(app)
            begin = time.perf_counter()
            await show(app, pane, DiffView(old, new, "old", "new", choosable=True))
            shows.append(time.perf_counter() - begin)
        held = await holds(pane)
        coloured = time.perf_counter() - begin
        rows = pane.lines.row_count
        timed = [scrolled(app, pane, row % max(1, rows)) for row in range(0, frames * 7, 7)]
        return {
            "show_ms": {
                "min": milliseconds(min(shows)),
                "p50": milliseconds(statistics.median(shows)),
                "max": milliseconds(max(shows)),
            },
            "coloured_ms": milliseconds(coloured),
            "longest_hold_ms": milliseconds(held),
            "rows": rows,
            "frame_ms": percentiles(timed),
            "key_ms": percentiles([await key(app, pane) for _ in range(40)]),
        }


async def show(app: PaneApp, pane: DiffPane, view: DiffView) -> None:
    """Until the diff is on the screen."""
    pane.show(view)
    while not pane.is_ready:
        await asyncio.sleep(_TICK)
    compose(app)


def compose(app: PaneApp) -> None:
    """Lays out and renders the screen to terminal codes, as a terminal would get it."""
    app.screen._refresh_layout()
    strips = app.screen._compositor.render_strips()
    for strip in strips:
        strip.render(app.console)


def scrolled(app: PaneApp, pane: DiffPane, row: int) -> float:
    """Seconds of a frame after a scroll."""
    begin = time.perf_counter()
    pane.lines.scroll_to(y=row, animate=False, immediate=True)
    for strip in app.screen._compositor.render_strips():
        strip.render(app.console)
    return time.perf_counter() - begin


async def key(app: PaneApp, pane: DiffPane) -> float:
    """Seconds from the action of a key, to the next hunk, to the rendered frame."""
    begin = time.perf_counter()
    pane.lines.action_next_hunk(1)
    await asyncio.sleep(0)
    for strip in app.screen._compositor.render_strips():
        strip.render(app.console)
    return time.perf_counter() - begin


async def holds(pane: DiffPane) -> float:
    """How long the event loop was held at most until all colours were there."""
    longest = 0.0
    while not all(document.highlighter.done for document in pane.lines.documents):
        begin = time.perf_counter()
        await asyncio.sleep(_TICK)
        longest = max(longest, time.perf_counter() - begin - _TICK)
    return longest


def milliseconds(seconds: float) -> float:
    """Rounded to a tenth."""
    return round(seconds * 1000, 1)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum."""
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "p50": milliseconds(cuts[9]),
        "p95": milliseconds(cuts[18]),
        "max": milliseconds(max(seconds)),
    }


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    old = kernel(arguments.lines)
    asyncio.run(measure(old, old, False, 2))  # imports and caches of the first app
    measured = {
        f"{name}, {'side by side' if beside else 'unified'}": asyncio.run(
            measure(old, new, beside, arguments.frames)
        )
        for name, new in edits(old).items()
        for beside in (False, True)
    }
    for name, values in measured.items():
        print(name, json.dumps(values))
    if arguments.write:
        result = {
            "environment": describe(),
            "textual": importlib.metadata.version("textual"),
            "lines": len(old.splitlines()),
            "screen": "{}x{}".format(*SCREEN),
            "diffs": measured,
        }
        (RESULTS / "diff_pane.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
