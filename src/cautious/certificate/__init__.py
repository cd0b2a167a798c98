"""Proofs of quality: upper bounds, and what a policy is worth, recomputed apart from the solvers."""
