"""Lakebed: Git-like version control for data lakes."""

__version__ = "0.1.0.dev0"
"""As in pyproject.toml: to read it from the installed package takes as long as a small command."""

__all__ = ["__version__"]
