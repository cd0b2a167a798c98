"""The best deterministic policy."""
