"""Production code under a seeded scheduler, with every fault."""
