"""Column generation, for risks of a few linear features."""
