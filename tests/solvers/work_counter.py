"""Counts the work of a solve in operations of about a nanosecond, by what its loops report: passes, steps, factors.

The constants were fitted to processor seconds of the large models of ``test_routing``.
"""

import time

import clarabel
import numpy as np

from cautious.horizons import discounted
from cautious.models.chains import Chain
from cautious.runtime.clock import Clock
from cautious.solvers import dense_transport
from cautious.solvers.conic import cone_program
from cautious.solvers.dual_newton import entropic_dual
from cautious.solvers.interior_point.newton_matrix import System
from cautious.solvers.interior_point.sparse_cholesky import Factor
from cautious.solvers.proximal import flow_system

# operations per transition of a pass of planning and of a step of a linear solve, by the method that makes it
PASS, KRYLOV_STEP, PROXIMAL_STEP, DUAL_STEP = 1.5, 8.0, 1.25, 2.0
# operations per pair and assembly; operations of an assembly, and of a factor, that take the time of one elsewhere
PAIR, ASSEMBLY_SPEED, FACTOR_SPEED = 160.0, 4.0, 70.0
# the same of a cone program: per entry and iteration, and the speed of its factor
CONE_ENTRY, CONE_SPEED = 100.0, 3.0


class ProcessorClock(Clock):
    """Counts the processor seconds of this process, so that other work on the machine does not end a run."""

    def __init__(self, limit_seconds):
        super().__init__(limit_seconds)
        self.started = time.process_time()

    @property
    def seconds(self):
        return time.process_time() - self.started


class WorkClock(ProcessorClock):
    """The run is over when so many operations were counted."""

    def __init__(self, counter, limit_seconds, most_work=np.inf):
        super().__init__(limit_seconds)
        self.counter, self.last = counter, counter.total + most_work

    @property
    def over(self):
        return self.counter.total >= self.last or super().over


class WorkCounter:
    """``total`` grows while the patches are in place."""

    def __init__(self, monkeypatch):
        self.total, self.patch, self.flops = 0.0, monkeypatch, {}
        self._wrap(
            discounted._DiscountedIteration, "run", lambda made, search, *_: PASS * (made.sweeps + 1) * search.n_entries
        )
        self._wrap(Chain, "krylov", lambda made, chain, *_: KRYLOV_STEP * made[1] * chain.chance.size)
        self._wrap(Factor, "update", lambda _, factor, *__: self.flops[id(factor)] / FACTOR_SPEED)
        self._wrap(System, "refactor", self._assembly)
        self._wrap(dense_transport._NewtonMatrix, "__init__", lambda _, newton, program: 0.5 * program.size**3)
        self._kernel(flow_system, lambda made, rows: PROXIMAL_STEP * made[1] * (rows[3].size + 4 * rows[5].size))
        self._kernel(entropic_dual, lambda made, rows: DUAL_STEP * abs(made) * rows[2].size)
        self._count_clarabel()
        self._remember_flops()

    def _wrap(self, owner, name, work):
        original = getattr(owner, name)

        def counted(*given, **options):
            made = original(*given, **options)
            self.total += work(made, *given)
            return made

        self.patch.setattr(owner, name, counted)

    def _kernel(self, module, work):
        original = module.kernels.conjugate_gradients

        def counted(*given):
            made = original(*given)
            self.total += work(made, given)
            return made

        self.patch.setattr(module.kernels, "conjugate_gradients", counted)

    def _assembly(self, _, system, *__):
        sizes = system.start[1:] - system.start[:-1]
        pairs = system.pair_start[1:] - system.pair_start[:-1]
        return float((pairs * sizes**2).sum()) / ASSEMBLY_SPEED + PAIR * float(pairs.sum())

    def _remember_flops(self):
        original = Factor.__init__

        def made(factor, pattern, *cliques):
            original(factor, pattern, *cliques)
            self.flops[id(factor)] = pattern.flops

        self.patch.setattr(Factor, "__init__", made)

    def _count_clarabel(self):
        counter = self

        class Counted:
            def __init__(self, quadratic, cost, rows, *more):
                self.solver, self.rows = clarabel.DefaultSolver(quadratic, cost, rows, *more), rows

            def set_termination_callback(self, callback):
                def counted(info):
                    # a column of k entries takes k^2 operations; all are taken to be equally long
                    factor = info.linsolver.nnzL**2 / sum(self.rows.shape)
                    counter.total += factor / CONE_SPEED + CONE_ENTRY * self.rows.nnz
                    return callback(info)

                self.solver.set_termination_callback(counted)

            def solve(self):
                return self.solver.solve()

        class Clarabel:
            def __getattr__(self, name):
                return Counted if name == "DefaultSolver" else getattr(clarabel, name)

        self.patch.setattr(cone_program, "clarabel", Clarabel())
