"""Sweeps of what a source leaves open: a model that orders trials, a search, its measurements."""
