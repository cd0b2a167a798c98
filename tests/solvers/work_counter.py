"""Counts the work of a solve in operations of about a nanosecond, by what its loops report: passes, steps, factors."""

import clarabel

from cautious import planning
from cautious.models.chains import Chain
from cautious.solvers import dense_transport
from cautious.solvers.conic import cone_program
from cautious.solvers.dual_newton import entropic_dual
from cautious.solvers.interior_point.newton_matrix import System
from cautious.solvers.interior_point.sparse_cholesky import Factor
from cautious.solvers.proximal import flow_system

PASS, KRYLOV_STEP, GRADIENT_STEP, PAIR, DENSE_SPEED = 2.0, 8.0, 5.0, 60.0, 20.0


class WorkCounter:
    """``total`` grows while the patches are in place."""

    def __init__(self, monkeypatch):
        self.total, self.patch, self.flops = 0.0, monkeypatch, {}
        self._wrap(planning._Search, "run", lambda made, search, *_: PASS * (made.sweeps + 1) * search.n_entries)
        self._wrap(Chain, "krylov", lambda made, chain, *_: KRYLOV_STEP * made[1] * chain.chance.size)
        self._wrap(Factor, "update", lambda _, factor, *__: self.flops[id(factor)] / DENSE_SPEED)
        self._wrap(System, "refactor", self._assembly)
        self._wrap(dense_transport._Newton, "__init__", lambda _, newton, program: 0.5 * program.size**3)
        self._kernel(flow_system, lambda made, rows: GRADIENT_STEP * made[1] * (rows[3].size + 4 * rows[5].size))
        self._kernel(entropic_dual, lambda made, rows: GRADIENT_STEP * abs(made) * rows[2].size)
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
        return float((pairs * sizes**2).sum()) / DENSE_SPEED + 2 * PAIR * float(pairs.sum())

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
                self.solver.set_termination_callback(callback)

            def solve(self):
                found = self.solver.solve()
                filled = self.solver.get_info().linsolver.nnzL
                # a column of k entries takes k^2 operations; all are taken to be equally long
                counter.total += found.iterations * (filled**2 / sum(self.rows.shape) + 20 * self.rows.nnz)
                return found

        class Clarabel:
            def __getattr__(self, name):
                return Counted if name == "DefaultSolver" else getattr(clarabel, name)

        self.patch.setattr(cone_program, "clarabel", Clarabel())
