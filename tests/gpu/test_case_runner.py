"""One case after the other on the scripted driver: memory is used again, modules are replaced."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.gpu.messages import CaseBuffer, CaseRan, Kernel, RunCase
from astra_tui.gpu.process.case import CaseRunner
from astra_tui.gpu.process.driver import DriverError
from astra_tui.gpu.process.tools import Tools
from astra_tui.model.device import RED_ZONE_BYTES
from tests.gpu.kernels import scripted_tools
from tests.gpu.script import Script, Scripted, with_memory
from tests.gpu.scripted_driver import ScriptedDriver

COPY = Script({"k": Scripted("copy")}).cubin()


def request(cubin: bytes, values: np.ndarray, misalignment: int = 0, repeats: int = 1) -> RunCase:
    kernel = Kernel(
        "k", (1, 1, 1), (32, 1, 1), 0, struct.pack("<QQq", 0, 0, values.size), ((0, "y"), (8, "x"))
    )
    poison = CaseBuffer("y", b"\xff" * values.nbytes, misalignment)
    return RunCase(cubin, (kernel,), (poison, CaseBuffer("x", values.tobytes())), repeats)


def a_driver() -> ScriptedDriver:
    return ScriptedDriver(facts=(with_memory(1 << 27),))


def result(ran: CaseRan) -> np.ndarray:
    return np.frombuffer(ran.contents["y"], np.float32)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 15)), min_size=1, max_size=5))
def test_cases_of_all_sizes_share_one_block(cases: list[tuple[int, int]]) -> None:
    driver = a_driver()
    runner = CaseRunner(driver)
    used = set()
    for index, (count, words) in enumerate(cases):
        values = np.arange(count, dtype=np.float32)
        ran = runner.run(request(b"" if index else COPY, values, 4 * words, repeats=2))
        np.testing.assert_array_equal(result(ran), values)
        assert (ran.overrun, ran.unstable) == ({}, ())
        used.add(driver.memory.used)
    assert len(used) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500), st.integers(0, 15), st.integers(1, RED_ZONE_BYTES), st.booleans())
def test_any_byte_of_a_red_zone_is_seen(
    count: int, words: int, distance: int, is_before: bool
) -> None:
    driver = a_driver()
    at = -distance if is_before else 4 * count + distance - 1
    script = Script({"k": Scripted("poke", options={"at": at})})
    values = np.arange(count, dtype=np.float32)
    ran = CaseRunner(driver).run(request(script.cubin(), values, 4 * words))
    np.testing.assert_array_equal(result(ran), values)
    (name,) = ran.overrun
    nearer_to_x = not is_before and distance > RED_ZONE_BYTES // 2
    assert name == "y" or nearer_to_x
    if name == "y":
        assert ran.overrun == {"y": -distance if is_before else distance}


def test_a_write_over_a_whole_red_zone_is_told_by_its_nearest_byte() -> None:
    driver = a_driver()
    script = Script({"k": Scripted("wipe_before", options={"bytes": RED_ZONE_BYTES})})
    values = np.arange(10, dtype=np.float32)
    ran = CaseRunner(driver).run(request(script.cubin(), values, 128))
    assert ran.overrun == {"y": -1}


def test_outputs_are_poisoned_anew_in_every_run() -> None:
    driver = a_driver()
    values = np.zeros(8, np.float32)
    lazy = Script({"k": Scripted("add_one")}).cubin()
    ran = CaseRunner(driver).run(
        RunCase(
            lazy,
            (Kernel("k", (1, 1, 1), (1, 1, 1), 0, struct.pack("<Qq", 0, 8), ((0, "x"),)),),
            (CaseBuffer("x", values.tobytes()),),
            repeats=5,
        )
    )
    assert ran.unstable == ()
    assert np.frombuffer(ran.contents["x"], np.float32).tolist() == [1.0] * 8


def test_a_new_module_replaces_the_old_one() -> None:
    driver = a_driver()
    runner = CaseRunner(driver)
    for nonce in "ab":
        runner.run(request(Script({"k": Scripted("copy")}, nonce=nonce).cubin(), np.ones(4, "f4")))
    assert [script.nonce for script in driver.modules.values()] == ["b"]


def test_a_case_that_does_not_fit_takes_nothing_from_the_next() -> None:
    driver = a_driver()
    runner = CaseRunner(driver)
    runner.run(request(COPY, np.ones(4, np.float32)))
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        runner.run(request(b"", np.ones(1 << 24, np.float32)))
    values = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(result(runner.run(request(b"", values))), values)


def test_red_zones_hold_no_number() -> None:
    driver = a_driver()
    runner = CaseRunner(driver)
    script = Script({"k": Scripted("read_past")})
    ran = runner.run(request(script.cubin(), np.ones(4, np.float32)))
    assert np.isnan(result(ran)).all()
    for dtype in ("f2", "f4"):
        assert np.isnan(np.frombuffer(ran.contents["y"], dtype)).all()


def two_launches(options: dict[str, int], values: np.ndarray, may_vary: bool = False) -> RunCase:
    """`a` copies x to mid; `b`, a dependent launch, copies mid to y."""
    script = Script({"a": Scripted("copy"), "b": Scripted("copy", options=options)})

    def kernel(symbol: str, target: str, source: str, pdl: bool) -> Kernel:
        parameters, pointers = struct.pack("<QQq", 0, 0, values.size), ((0, target), (8, source))
        return Kernel(symbol, (1, 1, 1), (32, 1, 1), 0, parameters, pointers, pdl=pdl)

    poison = b"\xff" * values.nbytes
    return RunCase(
        script.cubin(),
        (kernel("a", "mid", "x", False), kernel("b", "y", "mid", True)),
        (
            CaseBuffer("y", poison, produced=True, is_output=True),
            CaseBuffer("mid", poison, produced=True, is_output=True),
            CaseBuffer("x", values.tobytes(), produced=True),
        ),
        repeats=2,
        may_vary=may_vary,
    )


def test_a_launch_that_does_not_wait_for_one_of_its_own_call_is_named() -> None:
    driver = a_driver()
    kernels = scripted_tools()
    values = np.arange(40, dtype=np.float32)
    runner = CaseRunner(driver, Tools(driver, kernels.cubin, kernels.symbols))
    waits = runner.run(two_launches({}, values))
    np.testing.assert_array_equal(result(waits), values)
    assert (waits.unwaited, waits.early) == ((), False)
    begins_early = runner.run(two_launches({"begins_early": 1}, values))
    np.testing.assert_array_equal(result(begins_early), values)
    assert (begins_early.unwaited, begins_early.early, begins_early.unstable) == ((1,), False, ())
    may_vary = runner.run(two_launches({"begins_early": 1}, values, may_vary=True))
    assert may_vary.unwaited == (), "another result may be that of another order"
