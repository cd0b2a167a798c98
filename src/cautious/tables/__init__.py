"""Tables of any kind: named columns as numbers, labels or flags, and where each row stands."""

from cautious.tables.columns import Columns, read_columns

__all__ = ["Columns", "read_columns"]
