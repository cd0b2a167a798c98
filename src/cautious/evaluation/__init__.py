"""What a policy earns: simulated and exact, in a known model or from a log."""
