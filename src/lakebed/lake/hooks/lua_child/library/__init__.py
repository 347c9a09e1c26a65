"""Packages for scripts: dictionaries of functions."""
