"""The screen in a browser, by textual-serve."""
