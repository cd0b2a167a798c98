"""Reports: tables, drawings and HTML pages of Solutions. They draw; only ``trade`` solves, and only neighbours."""
