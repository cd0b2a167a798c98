"""What an installation without extras must do; ``make dist`` runs it beside the wheel that it has built.

Nothing here is imported from the checkout: run it with ``python -I``.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import cautious as ca


def command(*words: str) -> str:
    """What a command of the installed package prints."""
    done = subprocess.run([sys.executable, "-m", "cautious", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"cautious {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def main() -> None:
    """Solve, learn, save and load, and the command line."""
    assert "site-packages" in ca.__file__, ca.__file__
    mdp = ca.worlds.machine_replacement()
    limit = ca.Exposure([mdp.n_states - 1]) <= 0.01
    solution = ca.solve(ca.Problem(mdp, ca.Entropy(), caution=0.1, constraints=[limit])).require()
    assert solution.constraints[0].slack >= 0
    learned = ca.learn(mdp.simulator(), samples=2_000)
    assert learned.status is ca.Status.ESTIMATED
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "solution.npz")
        solution.save(path)
        assert ca.load(path).objective == solution.objective
    assert ca.__version__ in command("--version")
    assert "SOLVED" in command("solve", "maze")
    message = ""
    try:
        solution.report("page.html")
    except ca.MissingExtraError as error:
        message = str(error)
    assert "cautious[plot]" in message
    print(f"cautious {ca.__version__}: the wheel solves, learns, saves and loads")


if __name__ == "__main__":
    main()
