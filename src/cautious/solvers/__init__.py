"""Solvers: one file per structure of risk, one loop for all of them."""
