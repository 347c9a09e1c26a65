"""Which commits expire, and the fence that keeps others from using them meanwhile."""
