"""The lab's processes as the loop uses them."""

from __future__ import annotations

import asyncio

from astra_tui.engine.lab import Lab
from astra_tui.model.task import find_task


def test_one_process_serves_every_step_of_a_candidate():
    """A process whose answer is not read to its end is killed, and the next step pays a start."""

    async def steps() -> list[list[int]]:
        task = find_task("silu_and_mul")
        text = task.baseline_file.read_text(encoding="utf-8")
        lab = Lab(task)
        try:
            found = []
            compiled = await lab.compile(text, "baseline.cu")
            assert compiled.ok
            found.append(pids(lab))
            profiled = await lab.profile(text, "baseline.cu")
            assert profiled.profile.workloads
            found.append(pids(lab))
            async for _ in lab.check(text, "baseline.cu", ()):
                pass
            found.append(pids(lab))
            return found
        finally:
            lab.close()

    first, second, third = asyncio.run(steps())
    assert len(first) == 1
    assert first == second == third


def test_processes_that_rest_are_not_taken_meanwhile():
    """Else the answer to one request is read as that to another."""

    async def both() -> bool:
        task = find_task("silu_and_mul")
        text = task.baseline_file.read_text(encoding="utf-8")
        lab = Lab(task)
        try:
            await lab.compile(text, "baseline.cu")
            _, profiled = await asyncio.gather(lab.rest(), lab.profile(text, "baseline.cu"))
            return bool(profiled.profile.workloads)
        finally:
            lab.close()

    assert asyncio.run(both())


def pids(lab: Lab) -> list[int]:
    return [child.pid for child in lab.idle]
