"""Plain data and pure functions: everything the other packages agree on.

Nothing here reads a device, starts a process or imports another package of this project.
"""
