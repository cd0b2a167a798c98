"""Newton's method on the smooth dual, for entropies of pairs."""
