"""PTX text to data: a parser for what NVRTC writes, and inlining of device functions."""
