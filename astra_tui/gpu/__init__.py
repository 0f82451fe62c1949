"""A CUDA device, its clocks and its tools: candidates run in processes of their own.

`process/` is what runs there, without torch. Nothing here knows a compiler, a check or a session.
"""
