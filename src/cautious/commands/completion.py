"""What the shell offers after Tab; only the standard library, because the shell waits for it."""

from collections.abc import Iterator, MutableMapping
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
GYM = "gym:"


class Shell:
    """State of one completion: whether the shell completes only the part of a word after ``gym:``."""

    after_gym = False


def rejoin(environment: MutableMapping[str, str]) -> None:
    """Join the words that bash splits at a colon when it asks for completions: ``gym : T`` was typed as gym:T.

    Where that is the word to be completed, bash wants the rest of ``T``, so that is the word.
    """
    typed, current = environment.get("COMP_WORDS", ""), environment.get("COMP_CWORD", "")
    if environment.get("_CAUTIOUS_COMPLETE") != "complete_bash" or not current.isdecimal():
        return
    # the completion script of typer separates words by line ends, others by blanks
    between = "\n" if "\n" in typed else " "
    words = typed.split(between)
    at = next((place for place in range(len(words) - 1) if words[place : place + 2] == ["gym", ":"]), None)
    if at is None or int(current) <= at:
        return
    Shell.after_gym = int(current) <= at + 2
    last = min(int(current), at + 2)
    name = "".join(words[at + 2 : last + 1])
    environment["COMP_WORDS"] = between.join([*words[:at], name if Shell.after_gym else GYM + name, *words[last + 1 :]])
    environment["COMP_CWORD"] = str(int(current) - (last - at))


def problems(incomplete: str) -> list[str]:
    """Worlds, environments and files."""
    if Shell.after_gym:
        after = [name.removeprefix(GYM) for name in ENVIRONMENTS]
        return [name for name in after if name.startswith(incomplete)]
    named = [name for name in (*WORLDS, *ENVIRONMENTS) if name.startswith(incomplete)]
    return [*named, *files(incomplete)]


def worlds(incomplete: str) -> list[str]:
    """Names of worlds."""
    return [name for name in WORLDS if name.startswith(incomplete)]


def files(incomplete: str) -> list[str]:
    """Files and folders that begin like this; hidden ones only after a dot was typed."""
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
