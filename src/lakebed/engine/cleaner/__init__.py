"""Removing the records that nothing names any more."""
