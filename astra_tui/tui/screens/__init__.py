"""Home, the session, and the dialogs."""
