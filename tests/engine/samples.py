from prometheus_client import REGISTRY


def sample(name: str, **labels: str) -> float:
    """The value of a metric of this process; 0 before it was first measured."""
    return REGISTRY.get_sample_value(name, labels) or 0.0
