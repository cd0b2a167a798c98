"""Checks to run on parts of your own: models, simulators, risks and solvers.

Each check returns nothing when all is well and raises ``CheckFailure`` otherwise; the message says what failed, where
and by how much. They belong in your tests.

Examples
--------
>>> import cautious as ca
>>> from cautious.testing import check_risk, check_simulator
>>> check_risk(ca.Entropy(), ca.worlds.river_swim())
>>> check_simulator(ca.worlds.river_swim().simulator())
"""

from cautious.testing.check_models import check_model, check_simulator
from cautious.testing.check_risks import check_risk
from cautious.testing.check_solvers import check_solver
from cautious.testing.parts import CheckFailure

__all__ = ["CheckFailure", "check_model", "check_risk", "check_simulator", "check_solver"]
