"""csv files are read by the csv module and, where it pays, by pyarrow: every test of this folder runs with both."""

import pytest

from cautious.tables import csv_files


@pytest.fixture(params=["csv module", "pyarrow"], autouse=True)
def csv_reader(request, monkeypatch):
    if request.param == "pyarrow":
        monkeypatch.setattr(csv_files, "ARROW_BYTES", 0)
        # some rows and no more: chunks end within the files of the tests
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", 4096)
    return request.param
