"""A primal-dual interior point method with sparse factors, for distances to a prior."""
