"""Selling a large holding: fast and dear, or slow and exposed to the market."""

import numpy as np

from cautious.checks import as_count, as_number
from cautious.errors import InputError
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import Outcomes


def liquidation(
    n_blocks: int = 10,
    n_prices: int = 9,
    max_sale: int = 4,
    discount: float = 0.95,
    tick: float = 2.0,
    impact: float = 0.3,
    pressure: float = 0.02,
    financing: float = 0.3,
) -> MDP:
    """Sell a holding of ``n_blocks`` blocks of 1000 shares, at most ``max_sale`` blocks a day.

    State: blocks left and price level; levels are ``tick`` euros a share apart, around 100 euros, so one level is
    worth ``tick`` thousand euros per block. The price moves one level up or down each day, with even chances that
    shift by ``pressure`` against the seller per block sold; at the ends of the scale the outward move is lost. The
    reward is the day's gain or loss in thousand euros, marked to market: blocks kept times the price move, minus
    ``impact`` * (blocks sold)^2 for selling in a hurry, minus ``financing`` per block kept. This is the trade-off of
    Almgren and Chriss (2001): selling slowly saves impact and keeps the price risk. The numbers are illustrative.
    Episodes start with all blocks at the middle price.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.liquidation()
    >>> mdp.shape, mdp.scene.reward_unit
    ((99, 5), 'thousand euros')
    """
    n_blocks, n_prices = as_count("n_blocks", n_blocks), as_count("n_prices", n_prices, 3)
    max_sale = as_count("max_sale", max_sale)
    tick, impact = as_number("tick", tick, 0.0), as_number("impact", impact, 0.0)
    pressure, financing = as_number("pressure", pressure, 0.0), as_number("financing", financing, 0.0)
    if 0.5 + pressure * max_sale > 1:
        raise InputError(f"pressure is {pressure}; with max_sale {max_sale} it must be at most {0.5 / max_sale:g}")
    outcomes = Outcomes((n_blocks + 1) * n_prices, max_sale + 1)
    for blocks in range(n_blocks + 1):
        for price in range(n_prices):
            here = blocks * n_prices + price
            for sold in range(min(max_sale, blocks) + 1):
                kept = blocks - sold
                cost = impact * sold**2 + financing * kept
                for move, chance in ((1, 0.5 - pressure * sold), (-1, 0.5 + pressure * sold)):
                    there = min(max(price + move, 0), n_prices - 1)
                    gain = kept * tick * (there - price) - cost
                    outcomes.add(here, sold, kept * n_prices + there, chance, gain)
    start = np.zeros((n_blocks + 1) * n_prices)
    start[n_blocks * n_prices + n_prices // 2] = 1.0
    levels = [100 + tick * (price - n_prices // 2) for price in range(n_prices)]
    return outcomes.mdp(
        discount,
        start=start,
        state_names=[
            f"{b} blocks, level {p} ({level:g})" for b in range(n_blocks + 1) for p, level in enumerate(levels)
        ],
        action_names=[f"sell {sold}" for sold in range(max_sale + 1)],
        scene=Scene(
            "Liquidation", "Sell at once and move the price, or wait and bear its swings.", "day", "thousand euros"
        ),
    )
