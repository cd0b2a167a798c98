"""The names of our arrays in type hints; shapes are in the docstrings."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
# which of its labels a row of a table has: half as wide, because tables are long
Codes = NDArray[np.int32]
# text as bytes
Letters = NDArray[np.uint8]
