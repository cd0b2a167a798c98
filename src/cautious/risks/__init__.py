"""Risks: functions of the occupancy that a cautious agent pays for. One family per file."""
