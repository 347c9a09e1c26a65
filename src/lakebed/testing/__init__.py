"""Proof of drivers and protocols: conformance suites, the simulator, faults, models, real servers.

May import everything; no other package imports it. Public and shipped, so that drivers that are not
part of Lakebed can be tested too: `conformance`, `simulation` and `faults`.
"""
