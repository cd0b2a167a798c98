"""Risks of the return: a search for the target, around planning on pairs of a state and a target."""
