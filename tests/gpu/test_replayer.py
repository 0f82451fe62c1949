"""Graph replay on the scripted driver: what is timed, what is restored, what is given back."""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from astra_tui.gpu import drawing
from astra_tui.gpu.messages import (
    Build,
    Fetch,
    Fill,
    Kernel,
    PaperRun,
    Prepare,
    Rounds,
    RunSets,
    SetBuffer,
    Spin,
    Version,
)
from astra_tui.gpu.process.driver import DriverError
from astra_tui.gpu.process.replay import Replayer
from astra_tui.gpu.process.tools import Tools
from astra_tui.model.device import ArgumentRole
from astra_tui.processes.frames import window_bytes, window_fd
from tests.gpu.kernels import scripted_tools
from tests.gpu.script import ILLEGAL_ADDRESS, Machine, Script, Scripted
from tests.gpu.scripted_driver import ScriptedDriver

ELEMENTS = 10
SEED = 11
NORMAL = Fill("float32", "normal", 0, 1, 0, ())
STATE = SetBuffer("state", ArgumentRole.INOUT, 4 * ELEMENTS, ELEMENTS, NORMAL)
QUIET = Machine(noise=0.0, offset_us=6.0)


def version(kernel: Scripted, nonce: str = "", workspace: int = 0) -> Version:
    """A version that runs k(state, count) once a call."""
    launch = Kernel("k", (1, 1, 1), (32, 1, 1), 0, struct.pack("<Qq", 0, ELEMENTS), ((0, "state"),))
    workspaces = (("work", workspace),) if workspace else ()
    return Version(Script({"k": kernel}, nonce=nonce).cubin(), (launch,), workspaces)


def a_replayer(
    *versions: Version, driver: ScriptedDriver | None = None, replicas: int = 1
) -> Replayer:
    driver = driver or ScriptedDriver()
    tools = scripted_tools(QUIET)
    request = Prepare((STATE,), versions, SEED, replicas)
    tool_kernels = Tools(driver, tools.cubin, tools.symbols)
    return Replayer(driver, tool_kernels, request, window_fd())


def state_of(replayer: Replayer, which: int, number: int) -> np.ndarray:
    """What one set holds after the long graph was replayed."""
    replayer.rounds(Rounds(((which,),)))
    replayer.fetch(Fetch(number, 1, (("state", 0, STATE.size, 0),)))
    return window_bytes(window_fd())[: STATE.size].copy().view(np.float32)


def drawn(number: int) -> np.ndarray:
    assert STATE.fill is not None
    seed = drawing.seed_of(SEED, "state")
    bits = drawing.draw(STATE.fill, seed, number, np.arange(ELEMENTS))
    return np.asarray(bits.view(np.float32))


FAST, SLOW = version(Scripted("add_one", us=40.0)), version(Scripted("add_one", us=60.0), "slow")


def test_estimates_are_times_of_one_call_with_a_share_of_the_offset() -> None:
    prepared = a_replayer(FAST, SLOW).prepare()
    fast, slow = prepared.estimates_us
    assert 40 <= fast <= 41
    assert 60 <= slow <= 61
    assert prepared.resident_blocks == ((64,), (64,))
    assert prepared.free_bytes > 0


def test_a_column_is_a_version_whatever_the_order() -> None:
    replayer = a_replayer(FAST, SLOW)
    replayer.build(Build(launches=4, sets=4, flush_bytes=1024))
    block = replayer.rounds(Rounds(((0, 1), (1, 0), (1, 0)), short=(0, 2)))
    np.testing.assert_allclose(block.long, [[6 + 8 * 40, 6 + 8 * 60]] * 3)
    np.testing.assert_allclose(block.short, [[6 + 4 * 40, 6 + 4 * 60]] * 2)
    assert block.sm_mhz == pytest.approx(QUIET.mhz)


def test_restoring_and_flushing_are_not_timed() -> None:
    driver = ScriptedDriver()
    replayer = a_replayer(FAST, driver=driver)
    replayer.build(Build(4, 4, flush_bytes=8 << 20))  # Takes 8 us of the device's time.
    before = driver.now_us
    block = replayer.rounds(Rounds(((0,), (0,))))
    np.testing.assert_allclose(block.long, [[6 + 8 * 40]] * 2)
    assert driver.now_us - before > 2 * (6 + 8 * 40 + 8)


def test_every_set_is_used_once_and_restored_before_each_replay() -> None:
    replayer = a_replayer(FAST, SLOW)
    replayer.build(Build(3, 6, 0))
    for _ in range(2):
        replayer.rounds(Rounds(((0, 1), (1, 0)), short=(1,)))
        for number in range(6):
            for which in range(2):
                np.testing.assert_array_equal(state_of(replayer, which, number), drawn(number) + 1)


def test_warm_launches_all_use_one_set() -> None:
    replayer = a_replayer(FAST)
    replayer.build(Build(launches=5, sets=1, flush_bytes=0))
    replayer.rounds(Rounds(((0,), (0,))))
    np.testing.assert_allclose(state_of(replayer, 0, 0), drawn(0) + 10, rtol=1e-6)


class Watching(ScriptedDriver):
    """Notes where the launches of every graph that is run have their state."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[list[int]] = []

    def run_graph(self, graph: int) -> None:
        launches = self.graphs[graph]
        self.places.append([struct.unpack_from("<Q", one.parameters)[0] for one in launches])
        super().run_graph(graph)


def test_a_cold_graph_takes_one_set_after_the_other() -> None:
    driver = Watching()
    replayer = a_replayer(FAST, driver=driver)
    replayer.build(Build(4, 8, 0))
    driver.places.clear()
    replayer.rounds(Rounds(((0,),), short=(0,)))
    long, short = driver.places
    assert sorted(set(long)) == long, "no replay comes back to a set"
    assert short == long[:4]


def test_versions_use_the_replica_of_the_sets_that_a_round_names() -> None:
    driver = Watching()
    replayer = a_replayer(FAST, SLOW, driver=driver, replicas=2)
    replayer.build(Build(2, 2, 0))
    driver.places.clear()
    replayer.rounds(Rounds(((0, 1), (1, 0)), replicas=((0, 1), (1, 0)), short=(0,)))
    first, second = driver.places[0][:2], driver.places[1][:2]
    assert not set(first) & set(second)
    short_too = [first, second, first, second]
    assert [place[:2] for place in driver.places] == [*short_too, first, second]


def test_replicas_of_sets_hold_the_same_numbers() -> None:
    one, two = ScriptedDriver(), ScriptedDriver()
    sizes = []
    for driver, replicas in ((one, 1), (two, 2)):
        replayer = a_replayer(FAST, SLOW, driver=driver, replicas=replicas)
        before = driver.memory.used
        replayer.build(Build(2, 4, 0))
        sizes.append(driver.memory.used - before)
        for which in range(2):
            np.testing.assert_array_equal(state_of(replayer, which, 3), drawn(3) + 1)
    assert sizes[1] == 2 * sizes[0]


def test_the_paper_protocol_times_every_launch() -> None:
    driver = ScriptedDriver()
    replayer = a_replayer(FAST, driver=driver)
    before = driver.launched["k"]
    times = replayer.paper(PaperRun(0, warm_ups=20, launches=100)).times_us
    np.testing.assert_allclose(times, [40.0] * 100)
    assert driver.launched["k"] - before == 120


def test_spinning_counts_its_launches() -> None:
    driver = ScriptedDriver()
    replayer = a_replayer(FAST, driver=driver)
    replayer.build(Build(4, 4, 0))
    before = driver.launched["k"]
    spun = replayer.spin(Spin(0, 0.02))
    assert spun.launches == driver.launched["k"] - before > 0
    assert spun.seconds >= 0.02


def test_drift_slows_all_alike() -> None:
    driver = ScriptedDriver()
    replayer = a_replayer(FAST, SLOW, driver=driver)
    driver.machine = Machine(noise=0.0, drift=1.0, offset_us=0.0)
    replayer.build(Build(4, 4, 0))
    long = np.array(replayer.rounds(Rounds(((0, 1), (1, 0)) * 10)).long)
    assert (np.diff(long[:, 0]) > 0).all()
    pairs = np.log(long[:, 1] / long[:, 0]).reshape(-1, 2).mean(axis=1)
    np.testing.assert_allclose(pairs, np.log(60 / 40), rtol=1e-3)


def held(driver: ScriptedDriver) -> tuple[int, int, int]:
    return driver.memory.used, len(driver.modules), len(driver.graphs)


def test_everything_is_given_back() -> None:
    driver = ScriptedDriver()
    replayer = a_replayer(
        FAST, version(Scripted("add_one"), "w", workspace=4096), driver=driver, replicas=2
    )
    replayer.prepare()
    replayer.build(Build(4, 4, 1024))
    replayer.build(Build(8, 1, 0))
    replayer.rounds(Rounds(((0, 1), (1, 0)), short=(0,)))
    replayer.free()
    assert held(driver) == (0, 1, 0), "only our own kernels are left"


@pytest.mark.parametrize("workspace", [1 << 30, 40 << 20])
def test_versions_that_do_not_fit_leave_nothing_behind(workspace: int) -> None:
    driver = ScriptedDriver()
    too_large = [version(Scripted("add_one"), nonce, workspace) for nonce in "ab"]
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        a_replayer(FAST, *too_large, driver=driver)
    assert held(driver) == (0, 1, 0)


def test_a_fault_in_a_replay_is_told_and_stays() -> None:
    replayer = a_replayer(version(Scripted("add_one", error=ILLEGAL_ADDRESS, spared=50)))
    replayer.prepare()
    replayer.build(Build(4, 4, 0))
    for _ in range(2):
        with pytest.raises(DriverError, match=r"\(700\)") as caught:
            replayer.rounds(Rounds(((0,), (0,)) * 10))
        assert caught.value.is_sticky


# -- producers: what a launch with pdl= follows ----------------------------------------------------

INPUT = SetBuffer("in", ArgumentRole.IN, 4 * ELEMENTS, ELEMENTS, NORMAL)
WEIGHT = msgspec.structs.replace(INPUT, name="weight", stable=True)
RESULT = SetBuffer("out", ArgumentRole.OUT, 4 * ELEMENTS, ELEMENTS)


def dependent(options: dict[str, int], source: str = "in") -> Version:
    """A version that copies an input once a call, and may begin before what runs before it ends."""
    parameters = struct.pack("<QQq", 0, 0, ELEMENTS)
    pointers = ((0, "out"), (8, source))
    launch = Kernel("k", (1, 1, 1), (32, 1, 1), 0, parameters, pointers, pdl=True)
    script = Scripted("copy", us=40.0, options=options)
    return Version(Script({"k": script}, nonce=source + str(options)).cubin(), (launch,))


def behind_producers(*versions: Version) -> tuple[Replayer, ScriptedDriver]:
    driver = ScriptedDriver()
    tools = scripted_tools(QUIET)
    request = Prepare((INPUT, WEIGHT, RESULT), versions, SEED)
    replayer = Replayer(driver, Tools(driver, tools.cubin, tools.symbols), request, window_fd())
    replayer.build(Build(2, 4, 0, producer=True))
    return replayer, driver


def test_calls_follow_a_producer_which_is_part_of_their_time() -> None:
    replayer, _ = behind_producers(dependent({}))
    ((nodes, calls),) = replayer.build(Build(2, 4, 0, producer=True)).calls
    assert ([node.symbol for node in nodes], calls) == (["tool_produce", "k"], 4)
    assert [node.pdl for node in nodes] == [False, True]
    block = replayer.rounds(Rounds(((0,),)))
    np.testing.assert_allclose(block.long, [[6 + 4 * (40 + 1)]])


def test_a_call_that_does_not_wait_is_wrong_behind_a_late_producer() -> None:
    early = {"begins_early": 1}
    replayer, _ = behind_producers(dependent({}), dependent(early), dependent(early, "weight"))
    digests: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    block = replayer.rounds(Rounds(((0, 1, 2),), late=(0,), key=7))
    for version, digest in block.digests:
        digests[version].append(digest)
    on_time, late = digests[0]
    assert on_time == late, "who waits gets the same whenever the inputs come"
    assert digests[1][0] == on_time
    assert digests[1][1] != on_time
    assert digests[2][0] != digests[2][1], "its early stores are overwritten"
    assert block.early == (1, 2)
    assert replayer.rounds(Rounds(((0,),), late=(0,))).early == (1, 2), "once seen, it stays"


def test_every_set_is_run_behind_a_late_producer_for_a_check() -> None:
    outputs = []
    for options in ({}, {"begins_early": 1}):
        replayer, driver = behind_producers(dependent(options))
        used = driver.memory.used
        ran = replayer.run_sets(RunSets(0xFF, key=3))
        assert ran.inputs[0] == ran.inputs[1]
        assert driver.memory.used == used
        assert ran.early is bool(options)
        outputs.append(ran.outputs)
    assert all(right != wrong for right, wrong in zip(*outputs, strict=True))


def test_producers_give_their_memory_back() -> None:
    replayer, driver = behind_producers(dependent({}))
    used = driver.memory.used
    replayer.build(Build(2, 4, 0, producer=True))
    assert driver.memory.used == used
    replayer.build(Build(2, 4, 0))
    assert driver.memory.used < used
