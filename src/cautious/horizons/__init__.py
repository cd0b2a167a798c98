"""What each horizon asks of planning and of occupancies: a file for each."""
