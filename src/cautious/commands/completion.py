"""What the shell offers after Tab; only the standard library, because the shell waits for it."""

from collections.abc import Iterator
from pathlib import Path

# the keys of ``cautious.worlds``, which would load the numerics; a test compares
WORLDS = (
    "maze",
    "drift",
    "drift_prior_world",
    "garnet",
    "river_swim",
    "machine_replacement",
    "inventory",
    "queue",
    "forest",
    "liquidation",
    "clinic",
)
ENVIRONMENTS = ("gym:CliffWalking-v1", "gym:FrozenLake-v1", "gym:FrozenLake8x8-v1", "gym:Taxi-v4")


def problems(incomplete: str) -> list[str]:
    """Worlds, environments and files."""
    named = [name for name in (*WORLDS, *ENVIRONMENTS) if name.startswith(incomplete)]
    return [*named, *files(incomplete)]


def worlds(incomplete: str) -> list[str]:
    """Names of worlds."""
    return [name for name in WORLDS if name.startswith(incomplete)]


def files(incomplete: str) -> list[str]:
    """Files and folders that begin like this; hidden ones only when asked for."""
    return sorted(_matching(incomplete))


def _matching(incomplete: str) -> Iterator[str]:
    folder, _, begun = incomplete.rpartition("/")
    place = Path(f"{folder}/" if incomplete.startswith("/") and not folder else folder or ".")
    try:
        for path in place.expanduser().iterdir():
            if path.name.startswith(begun) and (begun or not path.name.startswith(".")):
                yield incomplete[: len(incomplete) - len(begun)] + path.name + ("/" if path.is_dir() else "")
    except OSError:
        return
