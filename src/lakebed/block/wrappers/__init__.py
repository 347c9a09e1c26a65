"""What every storage gets without knowing it: metrics and traces."""
