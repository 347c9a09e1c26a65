"""Real servers for tests, from packages."""
