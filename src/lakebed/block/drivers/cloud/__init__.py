"""Shared by the cloud drivers: objects by obstore, and the mapping of its errors."""
