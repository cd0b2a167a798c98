"""What a sparse Cholesky factor will look like, before any number is known."""

from cautious.arrays import Codes, Indices

PADDING: int
def neighbours(
    clique_start: Codes | Indices,
    members: Codes | Indices,
    indptr: Codes,
    /,
) -> Codes:
    """The pattern of cliques without its diagonal: pointers into ``indptr``."""

def nested_dissection(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    order: Indices,
    low: Indices,
    high: Indices,
    waiting: int,
    most: int,
    /,
) -> int:
    """Divide the pieces of ``order`` that wait; how many wait after ``most`` entries."""

def widest_level(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    n_states: int,
    /,
) -> int:
    """The most states at the same number of steps from one state."""

def elimination_tree(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    order: Indices,
    place: Indices,
    /,
) -> Indices:
    """The parent of each column, -1 at roots."""

def postorder(
    parent: Indices,
    counts: Indices,
    /,
) -> Indices:
    """Children before parents, the fullest child last."""

def column_counts(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    order: Indices,
    place: Indices,
    parent: Indices,
    children_first: Indices,
    /,
) -> Indices:
    """Entries per column of L, diagonal included."""

def supernodes(
    parent: Indices,
    counts: Indices,
    /,
) -> Indices:
    """First columns of the supernodes, and n."""

def supernode_tree(
    first: Indices,
    parent: Indices,
    /,
) -> Indices:
    """The parent of each supernode, -1 at roots."""

def supernode_rows(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    order: Indices,
    place: Indices,
    first: Indices,
    tree: Indices,
    counts: Indices,
    /,
) -> tuple[Indices, Indices]:
    """(row_start, rows) of the supernodes."""

def positions_in_parent(
    first: Indices,
    row_start: Indices,
    rows: Indices,
    tree: Indices,
    /,
) -> Indices:
    """Where the rows below a supernode's own columns are among its parent's rows."""

def panel_places(
    first: Indices,
    row_start: Indices,
    /,
) -> tuple[Indices, int]:
    """(start, room) of the supernodes' panels."""

def update_places(
    first: Indices,
    row_start: Indices,
    tree: Indices,
    /,
) -> tuple[Indices, int]:
    """(start, room) of the supernodes' update matrices."""

def number_entries(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    order: Indices,
    place: Indices,
    first: Indices,
    row_start: Indices,
    rows: Indices,
    /,
) -> tuple[Indices, Indices, Indices]:
    """(column_start, entry_row, entry_place) of the lower triangle's entries."""

def clique_entries(
    clique_start: Codes | Indices,
    members: Codes | Indices,
    place: Indices,
    column_start: Indices,
    entry_row: Indices,
    /,
) -> tuple[Indices, Codes]:
    """(start, entries): the entries of each clique's lower triangle, row by row."""

