"""Many runs as one study: jobs that are functions of their description, a folder of results, a table."""
