"""Draw the pictures of docs/architecture.md: who imports whom, and the calls of one solve, one learn and one drag.

The imports are parsed from the package. The calls are listed here; ``tests/docs/test_architecture.py`` makes the real
calls and fails if a function of a picture is not called from the function above it.

Run from the root of a checkout: python docs/images/architecture.py
"""

import ast
import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import cautious as ca
from cautious.report.canvas import GREEN, LIGHT, PURPLE, new_figure, png
from cautious.studio.scenario import EXAMPLES, RiskChoice
from cautious.studio.session import Session
from cautious.studio.websocket import Conversation

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from test_layers import FILES, LAYERS, LEVEL, PACKAGE, imports, layer_of, part  # noqa: E402

CELL = 0.215
ROW = 0.58
INDENT = 0.26
BOX = 2.75
COLOURS = {"certificate": GREEN, "learning": LIGHT.neutral, "studio": PURPLE}


def import_graph() -> dict[str, set[str]]:
    """For every part of the package the other parts that its files import when they are loaded."""
    graph: dict[str, set[str]] = {name: set() for name in LEVEL}
    for path in FILES:
        if part(path) in graph:
            for module in imports(ast.parse(path.read_text()), inside_functions=False):
                if module.split(".")[0] == "cautious" and layer_of(module) in graph:
                    graph[part(path)].add(layer_of(module))
    return {name: found - {name} for name, found in graph.items()}


def layers_picture() -> bytes:
    """A row per part in the order of the layers; a dot in every column of a part that it imports."""
    graph = import_graph()
    # a part that imports another one of its layer comes after it
    names = [name for layer in LAYERS for name in sorted(layer, key=lambda name: (len(graph[name] & layer), name))]
    place = {name: i for i, name in enumerate(names)}
    side = CELL * len(names)
    figure = new_figure(LIGHT, side + 1.4, side + 1.4)
    axes = figure.subplots()
    for number, layer in enumerate(LAYERS):
        rows = [place[name] for name in layer]
        if number % 2 == 0:
            axes.axhspan(min(rows) - 0.5, max(rows) + 0.5, color=LIGHT.faint, alpha=0.45, linewidth=0)
    for name, i in place.items():
        axes.plot(i, i, "s", color=LIGHT.wall, markersize=8)
        columns = [place[other] for other in graph[name]]
        axes.plot(columns, [i] * len(columns), "o", color=LIGHT.chosen, markersize=7)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=10, color=LIGHT.ink)
    axes.set_yticks(range(len(names)), names, fontsize=10, color=LIGHT.ink)
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(len(names) - 0.4, -0.6), aspect="equal")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.text(
        len(names) - 2,
        2.0,
        "A dot: the part named on the left imports\nthe part named above.\n"
        "Grey and white bands: the layers.\n"
        "No dot is on the right of the squares:\na part imports only what comes before it.",
        ha="right",
        va="top",
        multialignment="left",
        fontsize=11,
        color=LIGHT.ink,
        linespacing=1.5,
        bbox={"facecolor": LIGHT.paper, "edgecolor": LIGHT.wall, "pad": 8},
    )
    for spine in axes.spines.values():
        spine.set_visible(False)
    return png(figure, dpi=110)


@dataclass(frozen=True)
class Call:
    """A function of a file, what it receives and returns, what it does, and the calls it makes."""

    path: str
    function: str
    passed: str
    does: str
    inner: tuple["Call", ...] = ()

    @property
    def key(self) -> str:
        """As ``functions_called`` writes it."""
        return f"{self.path}:{self.function}"


SOLVE = (
    Call(
        "solvers/solve.py",
        "solve",
        "Problem, tolerance, limits → Solution",
        "Gathers the parameters in a Request.",
        (
            Call(
                "solvers/solve.py",
                "answer_ready",
                "Problem, Request → Solution",
                "Watches the clock, the memory and Ctrl-C.",
                (
                    Call(
                        "solvers/choose.py",
                        "dispatch",
                        "Problem, Target → Outcome",
                        "Runs one solver after the other until one does not stall.",
                        (
                            Call(
                                "solvers/reachable.py",
                                "reachable_part",
                                "Problem → ReachablePart or None",
                                "Cuts off the states that cannot be reached.",
                            ),
                            Call(
                                "solvers/choose.py",
                                "choose",
                                "Problem → solvers, the cheapest first",
                                "Asks every solver of the list SOLVERS two questions:",
                                (
                                    Call(
                                        "solvers/base.py",
                                        "Solver.refusal",
                                        "Problem → reason or None",
                                        "Does it accept the structures of the risk?",
                                    ),
                                    Call(
                                        "solvers/dual_newton/dual_newton.py",
                                        "DualNewton.work",
                                        "Problem, Shape → operations",
                                        "How much work is a model of this shape?",
                                    ),
                                ),
                            ),
                            Call(
                                "solvers/base.py",
                                "run",
                                "Solver, Problem, Target → Outcome",
                                "The only loop: it ends on a proof, a limit or a request.",
                                (
                                    Call(
                                        "solvers/dual_newton/dual_newton.py",
                                        "DualNewton.steps",
                                        "Problem, Target → Candidates",
                                        "Proposes a policy and a witness; nothing is believed.",
                                    ),
                                    Call(
                                        "solvers/base.py",
                                        "Outcome.take",
                                        "Candidate → the best so far",
                                        "Has the proposal judged and keeps what is better.",
                                        (
                                            Call(
                                                "certificate/bounds.py",
                                                "upper_bound",
                                                "Problem, Witness → number",
                                                "What no policy exceeds.",
                                            ),
                                            Call(
                                                "certificate/policy_evaluation.py",
                                                "evaluate_policy",
                                                "Problem, policy → EvaluatedPolicy",
                                                "What the policy is worth, with the rounding error.",
                                            ),
                                        ),
                                    ),
                                    Call(
                                        "solvers/base.py",
                                        "Outcome.decide",
                                        "gap, clock → Status",
                                        "Gap and clock decide how the run ended.",
                                    ),
                                ),
                            ),
                        ),
                    ),
                    Call(
                        "solvers/findings.py",
                        "findings",
                        "Problem, Outcome → Findings",
                        "Multipliers and prices; phase I where no policy is known.",
                    ),
                    Call(
                        "solvers/build_solution.py",
                        "build_solution",
                        "Problem, Findings → Solution",
                        "Writes the certificate and its sentence.",
                    ),
                ),
            ),
        ),
    ),
)

LEARN = (
    Call(
        "learning/learn.py",
        "learn",
        "Simulator, risk, caution, samples → Solution",
        "Checks the arguments.",
        (
            Call(
                "learning/task.py",
                "make_task",
                "Simulator, risk, caution → Task",
                "What is known before the first sample.",
            ),
            Call(
                "learning/learn.py",
                "choose",
                "Task → Method",
                "Plug-in, if the counts fit into memory.",
            ),
            Call(
                "learning/loop.py",
                "Loop.run",
                "Task, Method → FinishedRun",
                "The only loop: checkpoints, callbacks, Ctrl-C.",
                (
                    Call(
                        "learning/plug_in/plug_in.py",
                        "PlugInRun.advance",
                        "what is known → more counts, or a policy",
                        "One of the three below, in this order:",
                        (
                            Call(
                                "learning/plug_in/plug_in.py",
                                "PlugInRun._draw",
                                "sizes per pair → Counts",
                                "Draws transitions and counts them.",
                            ),
                            Call(
                                "learning/plug_in/plug_in.py",
                                "PlugInRun._direct",
                                "Counts → sizes of the next draws",
                                "Solves the counts; more samples where they matter.",
                            ),
                            Call(
                                "learning/plug_in/plug_in.py",
                                "PlugInRun._finish",
                                "Counts → policy, bound",
                                "Ends the learning:",
                                (
                                    Call(
                                        "learning/statements/optimum_bound.py",
                                        "optimum_below",
                                        "Task, Counts → number",
                                        "What no policy exceeds, with confidence.",
                                    ),
                                    Call(
                                        "learning/exact_solves.py",
                                        "best_outcome",
                                        "counted Problem → Outcome",
                                        "Solves the model counted from all samples:",
                                        (
                                            Call(
                                                "solvers/choose.py",
                                                "dispatch",
                                                "Problem, Target → Outcome",
                                                "From here on as in ca.solve.",
                                            ),
                                        ),
                                    ),
                                ),
                            ),
                        ),
                    ),
                    Call(
                        "learning/statements/trial.py",
                        "Trial.advance",
                        "policy → returns of fresh paths",
                        "Tries the policy with a tenth of the samples.",
                    ),
                ),
            ),
            Call(
                "learning/learned_solution.py",
                "learned_solution",
                "Task, FinishedRun → Solution",
                "Writes the statement with 95 % confidence:",
                (
                    Call(
                        "learning/statements/confidence.py",
                        "objective_at_least",
                        "Task, Result, Trial → number",
                        "What the policy is worth at least.",
                    ),
                ),
            ),
        ),
    ),
)

DRAG = (
    Call(
        "studio/static/controls.js",
        "store.change",
        "position of the slider → document",
        "In the browser: the caution of the document changes.",
    ),
    Call(
        "studio/static/link.js",
        "say",
        "document → JSON text",
        "Sends the whole statement through the WebSocket.",
    ),
    Call(
        "studio/websocket.py",
        "Conversation._listen",
        "JSON texts, as fast as they come",
        "In the server; the guard admitted the page earlier.",
        (
            Call(
                "studio/messages.py",
                "parse",
                "JSON text → Message",
                "Checks every field.",
            ),
            Call(
                "studio/websocket.py",
                "Conversation._take",
                "Message → the newest one",
                "Older statements that still wait are dropped.",
            ),
        ),
    ),
    Call(
        "studio/websocket.py",
        "Conversation._answer",
        "Message → binary message",
        "One computation per page at a time, in a thread:",
        (
            Call(
                "studio/session.py",
                "Session.solve",
                "Statement → Solution",
                "Knows the model and the last answer.",
                (
                    Call(
                        "problem.py",
                        "Problem.with_caution",
                        "caution → Problem",
                        "The same model and risk.",
                    ),
                    Call(
                        "solvers/solve.py",
                        "answer",
                        "Problem, Request, last Solution → Solution",
                        "As ca.solve, from the last policy:",
                        (
                            Call(
                                "solvers/choose.py",
                                "dispatch",
                                "Problem, Target → Outcome",
                                "From here on as in ca.solve.",
                            ),
                        ),
                    ),
                ),
            ),
            Call(
                "studio/answers.py",
                "solution_message",
                "Solution → binary message",
                "Numbers as JSON, policy and occupancy as float32.",
            ),
        ),
    ),
    Call(
        "studio/static/link.js",
        "receive",
        "binary message → head and arrays",
        "In the browser again.",
    ),
    Call(
        "studio/static/main.js",
        "solution",
        "head, arrays → picture",
        "Draws the policy and shows the numbers.",
    ),
)


def flattened(calls: tuple[Call, ...], parent: Call | None = None, depth: int = 0) -> Iterator[tuple[Call, Any, int]]:
    """Every call with the one that makes it and its depth, in the order of the picture."""
    for call in calls:
        yield call, parent, depth
        yield from flattened(call.inner, call, depth + 1)


def calls_picture(calls: tuple[Call, ...]) -> bytes:
    """A box per call, below and to the right of the box that calls it; what is passed and done beside it."""
    rows = list(flattened(calls))
    deepest = max(depth for _, _, depth in rows)
    # where the calls do not form one tree, arrows on the left lead from one to the next
    left = 0.0 if len(calls) == 1 else 0.24
    words = left + INDENT * deepest + BOX + 0.3
    width, height = words + 4.1, ROW * len(rows) + 0.1
    figure = new_figure(LIGHT, width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.1, width - 0.1), ylim=(height - 0.05, -0.05))
    axes.axis("off")
    middle: dict[int, float] = {}
    arrow = {"arrowstyle": "-|>", "color": LIGHT.wall, "shrinkA": 0, "shrinkB": 0}
    for number, (call, parent, depth) in enumerate(rows):
        x, y = left + INDENT * depth, ROW * (number + 0.5)
        middle[id(call)] = y
        colour = COLOURS.get(call.path.split("/")[0], LIGHT.chosen)
        box = {"boxstyle": "round,pad=0,rounding_size=0.06", "linewidth": 1.3}
        axes.add_patch(_round_box((x, y - 0.23), BOX, 0.46, facecolor=LIGHT.paper, edgecolor=colour, **box))
        axes.text(x + 0.1, y - 0.1, call.function, va="center", fontsize=10.5, weight="bold", color=LIGHT.ink)
        axes.text(x + 0.1, y + 0.11, call.path, va="center", fontsize=9.5, color=LIGHT.ink)
        axes.plot([x + BOX + 0.04, words - 0.06], [y, y], ":", color=LIGHT.wall, linewidth=1)
        axes.text(words, y - 0.1, call.passed, va="center", fontsize=10.5, color=LIGHT.ink)
        axes.text(words, y + 0.11, call.does, va="center", fontsize=10, color="#566070")
        if parent is not None:
            stem = x - INDENT / 2
            axes.plot([stem, stem], [middle[id(parent)] + 0.23, y], color=LIGHT.wall, linewidth=1.2, zorder=0)
            axes.annotate("", (x, y), (stem, y), arrowprops=arrow)
    for before, after in pairwise(calls):
        start, end = middle[id(before)] + 0.12, middle[id(after)] - 0.12
        axes.plot([left, left / 3, left / 3], [start, start, end], color=LIGHT.ink, linewidth=1.2)
        axes.annotate("", (left, end), (left / 3, end), arrowprops=arrow | {"color": LIGHT.ink})
    for text in axes.texts:
        assert text.get_window_extent().x1 <= figure.bbox.x1, f"wider than the picture: {text.get_text()}"
    return png(figure, dpi=110)


def _round_box(corner: tuple[float, float], width: float, height: float, **style: Any) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(corner, width, height, **style)


def functions_called(action: Callable[[], object]) -> dict[str, set[str]]:
    """For every function of the package that an action calls, the functions it was called from, at any distance.

    Lambdas, comprehensions and the bodies of modules are not counted, and neither are compiled kernels.
    """
    found: dict[str, set[str]] = {}

    def key(frame: Any) -> str | None:
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
        is_ours = PACKAGE in path.parents and not name.endswith(">")
        return f"{path.relative_to(PACKAGE).as_posix()}:{name}" if is_ours else None

    def note(frame: Any, event: str, argument: object) -> None:
        called = key(frame) if event == "call" else None
        while called is not None and frame is not None:
            found.setdefault(called, set()).add(key(frame) or "")
            frame = frame.f_back

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def one_solve() -> Callable[[], object]:
    """A solve with KL of a model with 100 states; what a process does only once has been done."""
    mdp = ca.worlds.garnet(n_states=100)
    prior = np.full(mdp.shape, 1 / (mdp.n_states * mdp.n_actions))
    ca.solve(ca.Problem(mdp, ca.KL(prior), caution=1.0))
    problem = ca.Problem(mdp, ca.KL(prior), caution=1.0)
    return lambda: ca.solve(problem)


def one_learn() -> Callable[[], object]:
    """A learning run by plug-in."""
    mdp = ca.worlds.river_swim()
    prior = np.full(mdp.shape, 1 / (mdp.n_states * mdp.n_actions))

    def learn() -> object:
        return ca.learn(mdp.simulator(), ca.KL(prior), caution=1.0, samples=20_000, method="plug-in")

    learn()
    return learn


class _Inline(Executor):
    """Work is done at once, in the thread of the caller, where the profile sees it."""

    def submit(self, work: Any, /, *arguments: Any, **keywords: Any) -> Any:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **keywords))
        return done


class _Page:
    """A page of the studio that asks once, waits for the answer and leaves."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.answered = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        if self.text is None:
            await self.answered.wait()
            return {"type": "websocket.disconnect"}
        text, self.text = self.text, None
        return {"type": "websocket.receive", "text": text}

    async def send_text(self, data: str) -> None:
        """The greeting."""

    async def send_bytes(self, data: bytes) -> None:
        self.answered.set()


def one_drag() -> Callable[[], object]:
    """A statement with another caution, on a page whose world and curve were answered before."""
    session = Session()
    statement = replace(EXAMPLES["maze"], risk=RiskChoice("kl", habit="random"), caution=1.0)
    session.solve(statement, lambda: False)

    async def drag() -> None:
        later = replace(statement, caution=2.0).plain()
        text = json.dumps({"type": "solve", "number": 1, "statement": later})
        conversation = Conversation(_Page(text), session, _Inline(), "{}", threading.Semaphore())
        conversation.drawn = replace(statement, caution=0.0)
        await conversation.run()

    return lambda: asyncio.run(drag())


PICTURES = {"solve": (SOLVE, one_solve), "learn": (LEARN, one_learn), "drag": (DRAG, one_drag)}


if __name__ == "__main__":
    (HERE / "architecture-layers.png").write_bytes(layers_picture())
    for name, (calls, prepare) in PICTURES.items():
        (HERE / f"architecture-{name}.png").write_bytes(calls_picture(calls))
        found = functions_called(prepare())
        print(f"one {name} passes {len(found)} functions in {len({key.split(':')[0] for key in found})} files")
