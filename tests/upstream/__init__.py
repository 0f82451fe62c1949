"""Bundled tasks that start from kernels of pinned packages."""
