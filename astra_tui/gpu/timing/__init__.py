"""Timing on a GPU: blocks, statistics, and the conditions under which a block counts."""
