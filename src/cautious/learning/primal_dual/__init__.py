"""Sweeps: our variant of Algorithm 1."""
