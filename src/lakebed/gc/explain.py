"""Errors of executors, told as the driver's own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PythonException

from lakebed.gc.errors import ExecutorFailed

# The last line of a traceback that names one of our errors; what follows is the JVM's.
_OWN: Final = re.compile(r"^(lakebed\.[\w.]+): (.*)$", re.MULTILINE)


@contextmanager
def explained() -> Iterator[None]:
    """Let an error that an executor raised come out with its own words.

    Raises:
        ExecutorFailed: An executor failed, and said why.
    """
    try:
        yield
    except PythonException as error:
        found = _OWN.findall(str(error))
        if not found:
            raise
        raise ExecutorFailed(*found[-1]) from error
