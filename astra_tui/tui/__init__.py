"""The Textual screen. Nothing here yet."""
