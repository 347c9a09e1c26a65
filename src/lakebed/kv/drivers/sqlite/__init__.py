"""A store in a SQLite file: the embedded default. Threads and processes may share the file."""

from lakebed.kv.drivers.sqlite.driver import open_driver

__all__ = ["open_driver"]
