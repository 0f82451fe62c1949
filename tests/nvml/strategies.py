"""Samples and counters with any reading missing."""

from __future__ import annotations

from hypothesis import strategies as st

from astra_tui.model.gpu import GpuCounters, GpuIdentity, GpuProcess, GpuSample, ThrottleReason

REASONS = st.lists(st.sampled_from(ThrottleReason), unique=True, max_size=4).map(tuple)
PROCESSES = st.lists(
    st.builds(GpuProcess, st.integers(1, 9), st.none() | st.integers(0, 2**36)), max_size=3
).map(tuple)
MISSING = st.dictionaries(
    st.sampled_from(["sm_mhz", "throttle_reasons", "other_processes", "uncorrected_ecc"]),
    st.sampled_from(["not supported by this GPU", "not permitted to this user"]),
)

SAMPLES = st.builds(
    GpuSample,
    seconds=st.floats(0, 1e6),
    sm_mhz=st.none() | st.integers(0, 3000),
    mem_mhz=st.none() | st.integers(0, 3000),
    power_w=st.none() | st.floats(0, 1000),
    average_power_w=st.none() | st.floats(0, 1000),
    temperature_c=st.none() | st.integers(0, 120),
    utilisation_percent=st.none() | st.integers(0, 100),
    memory_used_bytes=st.none() | st.integers(0, 2**37),
    throttle_reasons=st.none() | REASONS,
    other_processes=st.none() | PROCESSES,
    uncorrected_ecc=st.none() | st.integers(0, 3),
    missing=MISSING,
)
COUNTERS = st.builds(
    GpuCounters,
    seconds=st.floats(0, 100),
    energy_mj=st.none() | st.integers(0, 10**6),
    power_violation_ns=st.none() | st.integers(0, 10**9),
    thermal_violation_ns=st.none() | st.integers(0, 10**9),
)
IDENTITIES = st.builds(
    GpuIdentity,
    max_sm_mhz=st.none() | st.integers(1, 3000),
    ecc_enabled=st.none() | st.booleans(),
    mig_enabled=st.none() | st.booleans(),
)
