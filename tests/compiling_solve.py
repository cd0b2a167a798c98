"""A solver as on a fresh install, where the first run has to compile."""

import dataclasses

import numba

from cautious.solvers.solve import answer


def compiling_first(status, solver=answer):
    """The solver, whose first run compiles a kernel and ends with this status."""
    kernel = numba.njit(lambda x: x + 1.0)

    def compiling(*arguments, **options):
        found = solver(*arguments, **options)
        if kernel.signatures:
            return found
        kernel(1.0)
        return dataclasses.replace(found, status=status)

    return compiling
