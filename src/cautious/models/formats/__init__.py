"""Formats of model files, a module each; ``cautious.models.files`` has the list."""
