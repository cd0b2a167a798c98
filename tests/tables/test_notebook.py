"""What notebooks show: the figures of a solution, a frontier and a comparison, with every text escaped."""

import cautious as ca
from cautious.tables.notebook import html_table


def test_texts_are_escaped():
    found = html_table(["<b>"], [["a & b"], ["<script>"]], "t < u")
    assert found == (
        "<table><caption>t &lt; u</caption><thead><tr><th>&lt;b&gt;</th></tr></thead>"
        "<tbody><tr><td>a &amp; b</td></tr><tr><td>&lt;script&gt;</td></tr></tbody></table>"
    )


def test_solutions_frontiers_and_comparisons_are_tables():
    river = ca.worlds.river_swim()
    solution = ca.solve(ca.Problem(river, ca.Variance(), 1.0))
    assert f"<td>{solution.method}</td>" in solution._repr_html_()
    points = ca.frontier(river, ca.Variance(), cautions=[0.0, 1.0])
    assert points._repr_html_().count("<tr>") == 3
    compared = ca.compare(ca.Problem(river, ca.Variance(), 1.0), time_limit_seconds=5)
    assert compared._repr_html_().count("<tr>") == 1 + len(compared.rows)
