"""Plug-in learning: count transitions, solve the counted model."""
