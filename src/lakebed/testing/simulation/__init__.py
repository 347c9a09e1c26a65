"""The simulator: production code under a seeded scheduler that injects every kind of fault.

Imports the contracts of `lakebed.kv` and `lakebed.block`. Public: `simulator`, and `explore` as a
program. See design/0002-simulator.md.
"""
