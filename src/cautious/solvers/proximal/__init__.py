"""A matrix-free proximal interior point method, for distances to a prior."""
