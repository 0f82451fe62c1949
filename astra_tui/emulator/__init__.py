"""A CUDA device without a GPU: NVRTC's PTX, interpreted in NumPy with every access checked.

One element of a NumPy vector is one CUDA thread. Findings and counters carry source lines. What
is emulated is listed in `opcode_table.py`; what it cannot show (time, caches, occupancy) it does
not claim.
"""
