"""Sweeps: the device model, the search, and their measurements."""
