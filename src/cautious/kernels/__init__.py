"""Compiled loops on plain arrays, in the paper's symbols; each has a NumPy reference in its test."""

from cautious.kernels.compiled_files import lock_files

lock_files()
