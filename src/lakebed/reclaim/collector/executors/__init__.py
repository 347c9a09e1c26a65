"""Functions for the executors of Spark, next to the storage."""
