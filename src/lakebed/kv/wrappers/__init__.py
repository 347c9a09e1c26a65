"""What every driver gets without knowing it: metrics, retries and, in tests, faults."""
