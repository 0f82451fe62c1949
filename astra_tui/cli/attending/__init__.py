"""An engineer at a terminal while an engine runs: follows it, reads answers, may leave any time."""
