"""The packages of scripts, as functions by their names."""
