"""Processes that do without pandas.

PyArrow imports pandas, if it is there, with its first array. No process of a server needs it, and
it would take each a second to start and 50 MB to keep.
"""

import pickle
import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """Keeps pandas from being found."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuse the one import."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a server does without pandas", name=fullname)


def do_without_pandas() -> None:
    """Keep PyArrow from importing pandas from now on."""
    sys.meta_path.insert(0, _NoPandas())


def call_without_pandas(pickled: bytes, argument: object) -> None:
    """Begin a process: call a function that arrives pickled, with one argument.

    To unpickle it imports its module. That may make an array, so it must not come first.
    """
    do_without_pandas()
    pickle.loads(pickled)(argument)  # noqa: S301 - of the process that started this one
