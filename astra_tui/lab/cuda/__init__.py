"""The cuda device: candidates run in processes of their own, spoken to in frames.

`process/` is what runs there, without torch; everything else runs in the process that judges.
"""
