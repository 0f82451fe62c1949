"""The reader through the real pynvml, on a library that answers as a test sets it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.nvml import GpuReader, NvmlRefusal, gpu_uuids, uuid_of
from astra_tui.gpu.nvml.library import throttle_reasons
from astra_tui.model.gpu import GpuProcess, GpuSample, ThrottleReason
from tests.nvml.conftest import PCI_IDS, UUIDS, Build, FakeNvml, install


@pytest.fixture
def reader(fake: FakeNvml) -> Iterator[GpuReader]:
    with GpuReader(UUIDS[0], on_host=True) as opened:
        yield opened


def test_identity(reader: GpuReader) -> None:
    identity = reader.identity()
    assert identity.missing == {}
    assert identity.name == "Fake GPU 0"
    assert identity.uuid == UUIDS[0]
    assert identity.pci == PCI_IDS[0]
    assert identity.driver == "580.65.06"
    assert identity.cuda_driver == "13.2"
    assert identity.vbios == "96.00.61.00.01"
    assert identity.compute_capability == (9, 0)
    assert identity.sm_count == 132
    assert identity.memory_bytes == 85520809984
    assert (identity.max_sm_mhz, identity.max_mem_mhz) == (1980, 2619)
    assert identity.power_limit_w == 700.0
    assert identity.ecc_enabled is True
    assert identity.mig_enabled is False
    assert identity.persistence is True


def test_sample(fake: FakeNvml) -> None:
    fake.value("field 186", 312000)
    fake.value("field 185", 288000)
    fake.value("nvmlDeviceGetCurrentClocksEventReasons", 0x44)
    fake.value("nvmlDeviceGetTotalEccErrors", 2)
    with GpuReader(UUIDS[0], on_host=True, clock=lambda: 7.0) as reader:
        assert reader.sample() == GpuSample(
            seconds=7.0,
            sm_mhz=1755,
            mem_mhz=2619,
            power_w=312.0,
            average_power_w=288.0,
            temperature_c=41,
            utilisation_percent=97,
            memory_used_bytes=2**30,
            memory_total_bytes=85520809984,
            throttle_reasons=(ThrottleReason.SW_POWER_CAP, ThrottleReason.HW_THERMAL),
            other_processes=(),
            uncorrected_ecc=2,
        )


def test_values_change_between_samples(fake: FakeNvml, reader: GpuReader) -> None:
    first = reader.sample()
    fake.value("nvmlDeviceGetClockInfo sm", 345)
    fake.value("nvmlDeviceGetTemperature", 77)
    second = reader.sample()
    assert (first.sm_mhz, first.temperature_c) == (1755, 41)
    assert (second.sm_mhz, second.temperature_c) == (345, 77)
    assert second.mem_mhz == 2619


@pytest.mark.parametrize("address", [UUIDS[1], PCI_IDS[1], "0000:43:00.0"])
def test_the_gpu_is_found_by_uuid_or_pci_bus_id(fake: FakeNvml, address: str) -> None:
    with GpuReader(address) as reader:
        assert reader.identity().name == "Fake GPU 1"


@pytest.mark.parametrize("address", ["0", "cuda:0", "", "GPU-1", "1B"])
def test_an_index_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="by UUID or PCI bus id"):
        GpuReader(address)


def test_unknown_gpu(fake: FakeNvml) -> None:
    with GpuReader("0000:99:00.0") as reader:
        assert reader.problem == "no GPU with this UUID or PCI bus id"
        assert reader.sample().missing["sm_mhz"] == reader.problem
    assert fake.opened == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, "not supported by this GPU"),
        (4, "not permitted to this user"),
        (13, "not known to this driver's NVML"),
        (15, "the GPU is lost: it no longer answers on the bus"),
        (999, "NVML error 999: Unknown Error"),
    ],
)
def test_a_field_that_fails_says_why_and_leaves_the_others(
    fake: FakeNvml, reader: GpuReader, code: int, reason: str
) -> None:
    fake.error("nvmlDeviceGetTemperature", code)
    fake.error("nvmlDeviceGetMemoryInfo", code)
    sample = reader.sample()
    assert sample.temperature_c is sample.memory_used_bytes is sample.memory_total_bytes is None
    fields = ("temperature_c", "memory_used_bytes", "memory_total_bytes")
    assert sample.missing == dict.fromkeys(fields, reason)
    assert sample.sm_mhz == 1755


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (9, "the NVIDIA driver is not loaded"),
        (4, "not permitted to this user"),
        (18, "driver and NVML library differ in version: load the updated driver, or restart"),
    ],
)
def test_nvml_that_does_not_open(fake: FakeNvml, code: int, problem: str) -> None:
    fake.error("nvmlInitWithFlags", code)
    with GpuReader(UUIDS[0]) as reader:
        assert reader.problem == problem
        for reading in (
            reader.identity(),
            reader.sample(),
            reader.counters(),
            reader.occupants(),
        ):
            fields = set(reading.__struct_fields__) - {"missing", "seconds"}
            assert reading.missing == dict.fromkeys(fields, problem)
            assert all(getattr(reading, field) is None for field in fields)


def test_a_driver_that_lacks_a_function(build_fake: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, build_fake("WITHOUT_EVENT_REASONS"))
    with GpuReader(UUIDS[0], on_host=True) as reader:
        missing = reader.sample().missing
    assert missing == {"throttle_reasons": "not known to this driver's NVML"}
    assert fake.opened == 0


def test_gpu_without_ecc_and_mig(fake: FakeNvml, reader: GpuReader) -> None:
    fake.error("nvmlDeviceGetEccMode", 3)
    fake.error("nvmlDeviceGetMigMode", 3)
    identity = reader.identity()
    assert (identity.ecc_enabled, identity.mig_enabled) == (False, False)
    fake.error("nvmlDeviceGetMigMode", 4)
    assert reader.identity().missing == {"mig_enabled": "not permitted to this user"}


def test_unknown_architecture_has_no_sm_count(fake: FakeNvml, reader: GpuReader) -> None:
    fake.value("nvmlDeviceGetCudaComputeCapability", 99)
    identity = reader.identity()
    assert identity.sm_count is None
    assert "cores an SM are not known" in identity.missing["sm_count"]


@pytest.mark.parametrize(("capability", "known"), [(80, "power_w"), (90, "average_power_w")])
def test_older_drivers_tell_one_kind_of_power(
    fake: FakeNvml, reader: GpuReader, capability: int, known: str
) -> None:
    fake.error("field 185", 3)
    fake.error("field 186", 3)
    fake.value("nvmlDeviceGetCudaComputeCapability", capability)
    sample = reader.sample()
    (unknown,) = {"power_w", "average_power_w"} - {known}
    assert getattr(sample, known) == 300.0
    assert sample.missing == {unknown: "not supported by this GPU"}


def test_counters(fake: FakeNvml, reader: GpuReader) -> None:
    fake.value("nvmlDeviceGetTotalEnergyConsumption", 2**40)
    fake.value("violation power", 5_000_000)
    fake.error("violation thermal", 3)
    counters = reader.counters()
    assert counters.energy_mj == 2**40
    assert counters.power_violation_ns == 5_000_000
    assert counters.missing == {"thermal_violation_ns": "not supported by this GPU"}


def test_other_processes(fake: FakeNvml) -> None:
    fake.process(100, 3 << 30)
    fake.process(200, 2**64 - 1)
    fake.process(300, 5 << 20, kind=1)
    fake.process(100, 1, kind=2)
    with GpuReader(UUIDS[0], own_processes=lambda: (100,), on_host=True) as reader:
        assert reader.sample().other_processes == (GpuProcess(200), GpuProcess(300, 5 << 20))
        assert reader.occupants().processes == (
            GpuProcess(100, 3 << 30),
            GpuProcess(200),
            GpuProcess(300, 5 << 20),
        )
        fake.error("nvmlDeviceGetMPSComputeRunningProcesses", 3)
        assert reader.sample().missing == {}
    resting = frozenset((200, 400))
    own = partial(GpuReader, UUIDS[0], resting=lambda: resting, on_host=True)
    with own(own_processes=lambda: (100,)) as reader:
        assert reader.sample().other_processes == (GpuProcess(300, 5 << 20),)
    with own(own_processes=lambda: (400,)) as reader:
        assert "does not list" in reader.sample().missing["other_processes"]
        fake.error("nvmlDeviceGetGraphicsRunningProcesses", 4)
        assert reader.sample().missing == {"other_processes": "not permitted to this user"}


def test_a_hung_call_is_given_up_and_works_again_when_it_returns(fake: FakeNvml) -> None:
    with GpuReader(UUIDS[0], on_host=True, deadline=0.25) as reader:
        fake.hang("nvmlDeviceGetTemperature")
        first, second = reader.sample(), reader.sample()
        assert first.missing["sm_mhz"] == "NVML hangs: no answer within 0.25 s"
        assert second.missing["sm_mhz"] == "NVML hangs: an earlier call has not returned"
        fake.hang("nvmlDeviceGetTemperature", False)
        while (sample := reader.sample()).missing:
            assert "NVML hangs" in sample.missing["sm_mhz"]
        assert sample.temperature_c == 41


def test_close_does_not_wait_for_a_hung_call(fake: FakeNvml) -> None:
    reader = GpuReader(UUIDS[0], deadline=0.25)
    fake.hang("nvmlDeviceGetName")
    assert "hangs" in reader.identity().missing["name"]
    reader.close()
    assert fake.waiting == 1
    assert reader.identity().missing["name"] == "NVML is closed"


def test_opening_that_hangs(fake: FakeNvml) -> None:
    fake.hang("nvmlInitWithFlags")
    with GpuReader(UUIDS[0], deadline=0.25) as reader:
        assert reader.problem == "NVML hangs: no answer within 0.25 s"


def test_a_reader_gives_nvml_back(fake: FakeNvml) -> None:
    reader = GpuReader(UUIDS[0])
    assert fake.opened == 1
    reader.close()
    reader.close()
    assert fake.opened == 0
    assert reader.sample().missing["sm_mhz"] == "NVML is closed"


def test_listing(fake: FakeNvml) -> None:
    assert gpu_uuids() == UUIDS
    assert fake.opened == 0
    fake.hang("nvmlDeviceGetCount")
    with pytest.raises(NvmlRefusal, match="NVML hangs"):
        gpu_uuids(deadline=0.25)


def test_without_nvidia_ml_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with GpuReader(UUIDS[0]) as reader:
        assert reader.problem == "nvidia-ml-py is not installed"
        assert reader.sample().missing["power_w"] == "nvidia-ml-py is not installed"


def test_readings_survive_json(fake: FakeNvml, reader: GpuReader) -> None:
    fake.process(42, 1 << 20)
    fake.value("nvmlDeviceGetCurrentClocksEventReasons", 0x1000)
    for reading in (reader.identity(), reader.sample(), reader.counters(), reader.occupants()):
        assert msgspec.json.decode(msgspec.json.encode(reading), type=type(reading)) == reading


@given(st.integers(0, 2**64 - 1))
def test_every_bit_has_a_reason(bits: int) -> None:
    reasons = throttle_reasons(bits)
    assert bool(reasons) == bool(bits)
    assert len(set(reasons)) == len(reasons)
    assert (ThrottleReason.OTHER in reasons) == (bits >= 1 << 11)
    assert (ThrottleReason.HW_THERMAL in reasons) == bool(bits & 0x40)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_of(raw: bytes) -> None:
    text = uuid_of(raw)
    assert bytes.fromhex(text.removeprefix("GPU-").replace("-", "")) == raw
    assert [len(part) for part in text.split("-")] == [3, 8, 4, 4, 4, 12]


def test_uuid_of_wrong_size() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 4"):
        uuid_of(b"abcd")
