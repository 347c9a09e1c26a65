"""Lakebed: Git-like version control for data lakes."""

from importlib.metadata import version

__version__ = version("lakebed")

__all__ = ["__version__"]
