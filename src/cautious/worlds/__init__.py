"""Worlds: small models in real units, from the paper, from the literature and from practice, each a ``ca.MDP``.

Examples
--------
>>> import cautious as ca
>>> ca.worlds.inventory(discount=0.9).shape
(21, 21)
>>> ca.worlds.problem("inventory").risk_label
'TaskFloors'
"""

from cautious.worlds.catalogue import World, describe, names, problem
from cautious.worlds.grids import dark_cells, drift, drift_prior, drift_prior_world, from_grid, maze
from cautious.worlds.operations import clinic, clinic_tasks, forest, inventory, liquidation, machine_replacement, queue
from cautious.worlds.random_models import garnet, river_swim

__all__ = [
    "World",
    "clinic",
    "clinic_tasks",
    "dark_cells",
    "describe",
    "drift",
    "drift_prior",
    "drift_prior_world",
    "forest",
    "from_grid",
    "garnet",
    "inventory",
    "liquidation",
    "machine_replacement",
    "maze",
    "names",
    "problem",
    "queue",
    "river_swim",
]
