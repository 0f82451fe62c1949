"""Runs cases once under a tool of NVIDIA's that watches the launches (sanitizer/, ncu/).

`request.py` is read by the launcher, a process that has to stay small: nothing is imported here.
"""
