"""Sessions on disk: writing a journal, reading it back, finding and summarising sessions."""
