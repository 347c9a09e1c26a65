"""Test suites that every driver must pass; `tests/conformance` applies them.

Imports the contracts of `lakebed.kv` and `lakebed.block`. Public: `kv.StoreConformance` and
`block.BlockConformance`.
"""
