"""Local models, for risks known by value and gradient only."""
