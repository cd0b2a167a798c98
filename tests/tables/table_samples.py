"""A small table in columns, and how the tests read tables like it."""

from cautious.tables import read_columns

KINDS = {"labels": {"from": "place", "to": "place", "who": "who"}, "numbers": ("cost",), "flags": ("late",)}
TABLE = {
    "from": ["b", "a", "b", "c"],
    "to": ["a", "b", "c", "b"],
    "who": [3, 1, 3, 2],
    "cost": [1.5, -2.0, 0.0, 1e9],
    "late": [True, False, False, True],
}
HEADER = "from,to,who,cost,late\n"


def read(table, **more):
    return read_columns(table, **(KINDS | {"order": ("from", "to", "who", "cost", "late")} | more))


def rows():
    return list(zip(*TABLE.values(), strict=True))
