"""The page: well-formed, self-contained, escaped, and with the numbers in it."""

import builtins
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.report.overview import write_overview
from cautious.report.page import reproduction, write_report
from cautious.report.words import number

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}


class Checker(HTMLParser):
    """Collects tags and text; fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.references = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for key, value in attributes:
            if key in ("src", "href", "srcset"):
                self.references.append(value)
            assert not key.startswith("on")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    text = path.read_text("utf-8")
    page = Checker()
    page.feed(text)
    page.close()
    assert page.open == []
    assert not re.search(r"https?://", text)
    assert "script" not in page.tags
    return text, page


def test_a_page_is_self_contained_and_holds_the_numbers(maze_solution, maze_problem, tmp_path):
    path = tmp_path / "maze.html"
    write_report(maze_solution, path, problem=maze_problem, command="cautious solve maze")
    text, page = read(path)
    words = "".join(page.text)
    for value in (maze_solution.expected_return, maze_solution.risk, maze_solution.caution):
        assert number(value) in words
    assert number(maze_solution.upper_bound, 10) in words
    assert maze_solution.certificate.statement in words
    assert maze_solution.status.value in words
    # the world's docstring states these two figures of the risk-neutral policy: mean -0.807, deviation sqrt(0.1605)
    assert "-0.8074" in words
    assert "0.40056" in words
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    assert len(page.references) == 4
    assert "prefers-color-scheme: dark" in text
    assert [one.name for one in tmp_path.iterdir()] == ["maze.html"]


def test_the_same_solution_gives_the_same_bytes(chain_solution, tmp_path):
    for name in ("one.html", "two.html"):
        write_report(chain_solution, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_every_text_of_the_user_is_escaped(chain_solution, tmp_path):
    path = tmp_path / "chain.html"
    write_report(chain_solution, path, command="cautious solve '<img src=x>'")
    text, page = read(path)
    assert "<script>" not in text
    assert "<b>North" not in text
    assert page.tags.count("img") == 2
    words = "".join(page.text)
    assert "<script>alert(1)</script>" in words
    assert "Depot <b>North</b>" in words
    assert "Trucks & 'vans'." in words


def test_the_risk_of_the_neutral_policy_is_shown_only_when_it_is_known(chain_solution, chain_problem, tmp_path):
    write_report(chain_solution, tmp_path / "without.html")
    write_report(chain_solution, tmp_path / "with.html", problem=chain_problem)
    assert "n/a" in "".join(read(tmp_path / "without.html")[1].text)
    words = "".join(read(tmp_path / "with.html")[1].text)
    assert "n/a" not in words
    neutral = ca.solve(ca.Problem(chain_problem.mdp))
    assert number(max(neutral.occupancy[0].sum(), neutral.occupancy[1].sum())) in words


def test_an_infeasible_solution_has_a_page_that_says_so(infeasible_solution, tmp_path):
    path = tmp_path / "infeasible.html"
    write_report(infeasible_solution, path)
    words = "".join(read(path)[1].text)
    assert "No policy meets all requirements" in words
    assert "proved best" not in words


def test_a_risk_neutral_solution_needs_no_comparison(chain, tmp_path):
    path = tmp_path / "neutral.html"
    write_report(ca.solve(ca.Problem(chain)), path)
    words = "".join(read(path)[1].text)
    assert "risk plays no part" in words
    assert "risk-neutral policy" not in words


def test_a_model_of_a_hundred_thousand_states_gets_a_small_page(tmp_path):
    n = 100_000
    ahead = sp.csr_array((np.ones(n), (np.arange(n), np.minimum(np.arange(n) + 1, n - 1))), shape=(n, n))
    back = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, dtype=int))), shape=(n, n))
    mdp = ca.MDP([ahead, back], np.column_stack([np.zeros(n), np.ones(n)]), 0.5, np.eye(1, n)[0])
    path = tmp_path / "large.html"
    write_report(ca.solve(ca.Problem(mdp)), path)
    assert path.stat().st_size < 1_000_000
    assert "100,000 states" in "".join(read(path)[1].text)


def test_a_page_that_cannot_be_written_names_the_path(chain_solution, tmp_path):
    with pytest.raises(ca.FileError, match=r"cannot write .*missing"):
        write_report(chain_solution, tmp_path / "missing" / "page.html")


def test_without_matplotlib_the_extra_is_named(chain_solution, tmp_path, monkeypatch):
    real = builtins.__import__

    def fake(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(ca.MissingExtraError, match=r"pip install cautious\[plot\]"):
        write_report(chain_solution, tmp_path / "page.html")


def test_the_code_to_reproduce_is_python(maze_solution, chain_solution):
    for solution, call in ((maze_solution, "ca.Variance(), caution=10.0"), (chain_solution, "ca.PeakExposure(...)")):
        code = reproduction(solution, "cautious solve maze")
        compile(code, "page", "exec")
        assert call in code


def test_the_overview_links_the_pages_of_each_caution(maze_problem, tmp_path):
    points = ca.frontier(maze_problem.mdp, ca.Variance(), [0, 10])
    path = tmp_path / "report.html"
    write_overview(
        points, path, problem=maze_problem, pages={0.0: "zero.html", 10.0: "ten.html"}, command="cautious demo"
    )
    _, page = read(path)
    assert {"zero.html", "ten.html"} <= set(page.references)
    # the risk-neutral point has a risk, although its own solution carries none
    assert number(maze_problem.risk_value(points[0].occupancy), 6) in "".join(page.text)


def test_a_learned_solution_says_what_is_estimated(tmp_path):
    learned = ca.learn(ca.worlds.maze().simulator(), ca.Variance(), caution=10.0, samples=20_000, seed=4)
    learned.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "learned from samples" in text
    assert "expected return (counted model)" in text
    assert learned.certificate.statement in text
    assert "samples=20000, method=&quot;plug-in&quot;, seed=4" in text
    assert "(exact)" not in text
    assert "n/a" not in text


def test_a_policy_learned_without_a_model_is_drawn_and_not_compared(tmp_path):
    learned = ca.learn(ca.worlds.maze().simulator(), samples=20_000, method="primal-dual")
    assert learned.plot().axes
    with pytest.raises(ca.IncompatibleError, match="stand-in for a simulator"):
        learned.report(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
