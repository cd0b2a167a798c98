"""Reports: tables, drawings and HTML pages of Solutions. Only ``trade_off`` solves, and only neighbouring cautions."""
