"""The simulator: production code under a seeded scheduler with fault injection.

Imports the contracts of `lakebed.kv` and `lakebed.block`. Public: `simulator`, and `explore` as a
program. See design/0002-simulator.md.
"""
