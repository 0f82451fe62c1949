"""astra-tui: optimise CUDA kernels with four agents and an engineer in the loop."""

__version__ = "0.1.0"
