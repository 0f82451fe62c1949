"""Processes of our own: started, spoken to in frames, locked down, and ended with their parent."""
