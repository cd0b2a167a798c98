"""Formats of model files: one module reads, one writes. ``models.files`` has the list."""
