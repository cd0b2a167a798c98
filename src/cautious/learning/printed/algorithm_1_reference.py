"""Algorithm 1 line by line, in the paper's symbols: the text the compiled loop is tested against.

symbol        word                                   shape    where in the paper
lam           flux, mass 1/(1-gamma); kept as log    (S, A)   (defn:lambda-feasible-region)
v             multipliers                            (S,)     in the box of Lemma 1
zeta          law that picks what to simulate        (S, A)   Algorithm 1, first line of the loop
u             c times a subgradient of rho in lam    (S, A)   Assumption 1
alpha, beta   steps of v and lam; m1, m2 shifts               Theorem 1
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Mask


@dataclass(frozen=True)
class Constants:
    """Everything that stays fixed; for rewards in [0, 1]. ``c_sigma`` bounds c times the subgradients of rho in lam."""

    gamma: float
    n_states: int
    pairs: int
    horizon: int
    c_sigma: float
    alpha: float
    beta: float
    m1: float
    m2: float
    delta: float

    @property
    def box(self) -> float:
        """Lemma 1, with its factor two: |v| <= 2 (1 + c sigma) / (1-gamma)."""
        return 2 * (1 + self.c_sigma) / (1 - self.gamma)

    @property
    def bound(self) -> float:
        """What the proof of Theorem 1 gives for the expected duality gap, before O( ) hides the constants."""
        rest, size, log_pairs = 1 - self.gamma, 1 + self.c_sigma, np.log(max(self.pairs, 2))
        return float(
            log_pairs / (self.horizon * rest * self.beta)
            + 4 * self.beta * self.c_sigma**2 / rest
            + 128 * self.beta * self.pairs * size**2 / rest**3
            + 8 * self.n_states * size**2 / (self.horizon * self.alpha * rest**2)
            + 27 * self.alpha / (2 * rest**2)
            + 3 * np.sqrt(3 * self.n_states / self.horizon) * size / rest**2
        )


@dataclass(frozen=True)
class Iterate:
    """lam^t as its logarithm, v^t, and the sums of (1-gamma) lam and of v up to t-1."""

    log_lam: Array
    v: Array
    d_sum: Array
    v_sum: Array


def iterate(
    now: Iterate,
    allowed: Mask,
    constants: Constants,
    risk_slope: Callable[[Array], Array],
    pick: float,
    s_bar: int,
    generate: Callable[[int, int], tuple[int, float]],
) -> tuple[Iterate, tuple[int, int, float]]:
    """One pass of the loop of Algorithm 1, and what it saw: s, a, r_hat.

    ``risk_slope`` (S, A) -> (S, A) takes the occupancy (1-gamma) lam; ``pick`` in [0, 1) selects the pair;
    ``generate`` is the generative model: (s, a) -> (s', r_hat).
    """
    k, gamma = constants, constants.gamma
    lam, v = np.exp(now.log_lam), now.v

    # zeta^t := (1-delta)(1-gamma) lam^t + delta / (|S||A|)
    zeta = np.where(allowed, (1 - k.delta) * (1 - gamma) * lam + k.delta / k.pairs, 0.0)

    # (s_t, a_t) ~ zeta^t; rounding may leave the sum a little below one
    place = int(np.searchsorted(np.cumsum(zeta), pick, side="right"))
    place = min(place, int(np.flatnonzero(allowed)[-1]))
    s, a = divmod(place, lam.shape[1])

    # s'_t ~ P(. | a_t, s_t) and r_hat
    s_next, r_hat = generate(s, a)

    # (defn:sto-grad-v): e_s_bar + lam_sa / zeta_sa (gamma e_s' - e_s)
    gradient_v = np.zeros_like(v)
    gradient_v[s_bar] += 1
    gradient_v[s_next] += lam[s, a] / zeta[s, a] * gamma
    gradient_v[s] -= lam[s, a] / zeta[s, a]

    # (defn:sto-grad-lam): (r_hat + gamma v_s' - v_s - M1) / zeta_sa E_sa - c u - M2
    gradient_lam = -risk_slope((1 - gamma) * lam) - k.m2
    gradient_lam[s, a] += (r_hat + gamma * v[s_next] - v[s] - k.m1) / zeta[s, a]

    # (defn:v-update)
    v_new = np.clip(v - k.alpha * gradient_v, -k.box, k.box)

    # (defn:lam-update-1): lam exp(beta gradient), then (defn:lam-update-2): mass 1/(1-gamma)
    log_half = now.log_lam + k.beta * gradient_lam
    top = log_half.max()
    log_new = log_half - top - np.log((1 - gamma) * np.sum(np.exp(log_half - top)))

    sums = now.d_sum + (1 - gamma) * lam, now.v_sum + v
    return Iterate(np.asarray(log_new), np.asarray(v_new), *sums), (s, a, r_hat)
