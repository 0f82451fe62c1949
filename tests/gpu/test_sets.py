"""Buffer sets on the scripted driver: where they lie, what they hold, and who gives them back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from astra_tui.gpu import drawing
from astra_tui.gpu.messages import Fill, SetBuffer
from astra_tui.gpu.process.driver import DriverError
from astra_tui.gpu.process.sets import BufferSets
from astra_tui.gpu.process.tools import Tools
from astra_tui.model.device import ArgumentRole
from tests.gpu.kernels import scripted_tools
from tests.gpu.script import FACTS
from tests.gpu.scripted_driver import ScriptedDriver

NOISE = Fill("float16", "normal", 0.0, 1.0, 0.0, ())
INDICES = Fill("int32", "integers", 0.0, 9.0, 0.0, ())
BUFFERS = (
    SetBuffer("x", ArgumentRole.IN, 2 * 100, 100, NOISE),
    SetBuffer("index", ArgumentRole.IN, 4 * 7, 7, INDICES),
    SetBuffer("state", ArgumentRole.INOUT, 2 * 33, 33, NOISE),
    SetBuffer("y", ArgumentRole.OUT, 2 * 300, 300),
    SetBuffer("nothing", ArgumentRole.IN, 0, 0, NOISE),
)
SETS = 5


def tools_of(driver: ScriptedDriver) -> Tools:
    tools = scripted_tools()
    return Tools(driver, tools.cubin, tools.symbols)


def make(driver: ScriptedDriver, count: int = SETS, seed: int = 3, red_zone: int = 0) -> BufferSets:
    return BufferSets(driver, tools_of(driver), BUFFERS, count, seed, red_zone)


def test_buffers_lie_apart_and_aligned() -> None:
    sets = make(ScriptedDriver())
    places = sorted((sets.address(b, number), b.size) for b in BUFFERS for number in range(SETS))
    assert all(address % 256 == 0 for address, _ in places)
    assert all(first + size <= second for (first, size), (second, _) in pairwise(places))
    assert sets.addresses(2) == {b.name: sets.address(b, 2) for b in BUFFERS}


def test_every_set_holds_what_the_twin_draws_and_outputs_hold_poison() -> None:
    driver = ScriptedDriver()
    sets = make(driver, seed=3)
    for buffer in BUFFERS:
        for number in range(SETS):
            found = driver.download(sets.address(buffer, number), buffer.size)
            if buffer.fill is None:
                assert (found == 0xFF).all()
                continue
            seed = drawing.seed_of(3, buffer.name)
            drawn = drawing.draw(buffer.fill, seed, number, np.arange(buffer.elements))
            np.testing.assert_array_equal(found.view(drawn.dtype), drawn)


def test_what_is_changed_in_place_is_restored_and_nothing_else() -> None:
    driver = ScriptedDriver()
    sets = make(driver)
    state, output = BUFFERS[2], BUFFERS[3]
    assert sets.restored_bytes == SETS * 256
    before = [driver.download(sets.address(state, n), state.size) for n in range(SETS)]
    for number in range(SETS):
        driver.fill(sets.address(state, number), 1, state.size)
        driver.fill(sets.address(output, number), 2, output.size)
    sets.restore()
    for number in range(SETS):
        restored = driver.download(sets.address(state, number), state.size)
        np.testing.assert_array_equal(restored, before[number])
        assert (driver.download(sets.address(output, number), output.size) == 2).all()
    sets.poison()
    assert (driver.download(sets.address(output, 4), output.size) == 0xFF).all()


def test_without_inout_nothing_is_restored() -> None:
    driver = ScriptedDriver()
    sets = BufferSets(driver, tools_of(driver), BUFFERS[:2], SETS, 1)
    clock = driver.now_us
    sets.restore()
    assert (sets.restored_bytes, driver.now_us) == (0, clock)


def test_the_digest_of_a_set_does_not_tell_how_many_there_are() -> None:
    """Warm launches use one set of those whose outputs were judged."""
    found = []
    for count in (SETS, 1):
        driver = ScriptedDriver()
        sets = make(driver, count)
        target = driver.allocate(8 * SETS)
        sets.digest_outputs(77, target, count)
        found.append(driver.download(target, 8).tolist())
    assert found[0] == found[1]


def test_all_memory_is_given_back() -> None:
    driver = ScriptedDriver()
    sets = make(driver)
    assert driver.memory.used > 0
    sets.free()
    assert driver.memory.used == 0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_sets_that_do_not_fit_leave_nothing_behind(share: float) -> None:
    driver = ScriptedDriver()
    count = int(FACTS.memory / 2048 / share)
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        make(driver, count)
    assert driver.memory.used == 0
