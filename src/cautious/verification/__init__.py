"""The proof of a solution once more, in exact arithmetic, by code that shares nothing with solvers or certificates."""
