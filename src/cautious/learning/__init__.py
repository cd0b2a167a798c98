"""Learning from a simulator."""
