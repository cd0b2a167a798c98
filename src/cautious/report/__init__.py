"""Reports: tables, drawings and one HTML page of a Solution. They draw; they never solve."""
