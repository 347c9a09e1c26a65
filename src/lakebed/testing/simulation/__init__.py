"""The simulator: production code under a seeded scheduler, with every kind of fault."""
