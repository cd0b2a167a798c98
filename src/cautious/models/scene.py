"""``Scene``: how a model is described and drawn; facts for people, never used in a computation."""

from dataclasses import dataclass

from cautious.models.names import check_texts


@dataclass(frozen=True)
class Scene:
    """Title, units and an optional map of a model.

    ``grid`` holds one string per row of the map; character ``#`` is a wall (no state), every other character is a
    state, numbered row by row. ``step`` and ``reward_unit`` are the real units of time and reward.

    Examples
    --------
    >>> import cautious as ca
    >>> scene = ca.Scene("Yard", step="minute", reward_unit="euros", grid=("S.", "#G"))
    >>> scene.cells
    [(0, 0), (0, 1), (1, 1)]
    """

    title: str
    story: str = ""
    step: str = "step"
    reward_unit: str = "reward"
    grid: tuple[str, ...] = ()
    action_arrows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        words = (self.title, self.story, self.step, self.reward_unit)
        for name, texts in (("words", words), ("grid", self.grid), ("action_arrows", self.action_arrows)):
            check_texts(f"scene {name}", [str(text) for text in texts])

    @property
    def cells(self) -> list[tuple[int, int]]:
        """(row, column) of each state, in the order of the states."""
        return [(i, j) for i, row in enumerate(self.grid) for j, mark in enumerate(row) if mark != "#"]
