"""Branch and bound over the scalars of variance and CVaR."""
