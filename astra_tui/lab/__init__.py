"""Where kernels are compiled, checked, timed and explained, on the emulator or on a GPU."""
