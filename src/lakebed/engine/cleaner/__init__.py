"""The Cleaner, which removes records that nothing names any more."""
