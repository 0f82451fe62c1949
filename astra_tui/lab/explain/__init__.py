"""Why a candidate is fast or slow: counters, resources and occupancy, put together."""
