"""Block the import of pandas.

PyArrow imports pandas, if installed, with its first array. Servers do not use pandas, and importing
it costs each process a second at start and 50 MB of memory.
"""

import pickle
import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """Import hook that blocks pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is blocked in server processes", name=fullname)


def block_pandas() -> None:
    """Prevent PyArrow from importing pandas from now on."""
    sys.meta_path.insert(0, _NoPandas())


def call_without_pandas(pickled: bytes, argument: object) -> None:
    """Call a pickled function with one argument: the entry point of a process.

    pandas is blocked first: unpickling imports the function's module, which may create an array.
    """
    block_pandas()
    pickle.loads(pickled)(argument)  # noqa: S301 - of the process that started this one
