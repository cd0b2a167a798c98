"""``Status``: how a run ended; and the gap at which it is solved unless something else is asked for."""

from enum import Enum

# SOLVED means a gap of at most tolerance * max(1, |objective|): see ``Target.allowance``
DEFAULT_TOLERANCE = 1e-6


class Status(Enum):
    """How a run ended; the value is the sentence a person reads.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.solve(ca.worlds.problem("maze")).status is ca.Status.SOLVED
    True
    """

    SOLVED = "solved: the gap is within the tolerance"
    STATIONARY = "stationary: no policy close by is better, but others may be (not convex)"
    TIME_LIMIT = "time limit reached: this is the best policy so far, with its gap"
    MEMORY_LIMIT = "memory limit reached: this is the best policy so far, with its gap"
    STEP_LIMIT = "step limit reached: this is the best policy so far, with its gap"
    STOPPED = "stopped on request: this is the best policy so far, with its gap"
    STALLED = "stalled: the gap did not reach the tolerance; this is the best policy found, with its gap"
    INFEASIBLE = "infeasible: no policy meets all requirements; the policy shown comes closest"
    ESTIMATED = "estimated: all samples were used; the certificate says how sure the result is"
    UNDECIDED = "undecided: no policy with a finite objective was found, and none is excluded"
