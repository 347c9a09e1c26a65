"""Garbage collection on Spark: finds and deletes objects that nothing refers to."""
