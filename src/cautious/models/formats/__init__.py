"""Formats of model files: one module reads, one writes. ``registry`` has the list."""
