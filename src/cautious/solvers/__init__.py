"""Solvers: one file or folder per method, one loop for all of them."""
