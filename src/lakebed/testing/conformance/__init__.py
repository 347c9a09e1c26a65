"""Test suites that every driver must pass."""
