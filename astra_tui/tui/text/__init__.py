"""Text as the panes draw it: made harmless and visible, and coloured as CUDA. No Textual here."""
