"""Tests of drivers and protocols: conformance suites, simulator, faults, models, real servers.

May import everything; no other package imports it. Public and shipped for third-party drivers:
`conformance`, `simulation` and `faults`.
"""
