"""The Spark session of a run, and the errors of its executors."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from lakebed.reclaim.collector.errors import ExecutorFailed, SparkNotStarted

# Programs that spark-submit starts find their JVM by it; spark-submit has all other options.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"

TASK_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
)
"""What writes the traceback of a task that failed to the log, twice."""

# The last line of a traceback that names one of our errors; what follows is the JVM's.
_OWN_ERROR: Final = re.compile(r"^(lakebed\.[\w.]+): (.*)$", re.MULTILINE)


def new_session(master: str | None = None, *, name: str = "lakebed gc") -> SparkSession:
    """Start Spark, or return the session that exists.

    A session on this machine alone listens on loopback only and has no web page.

    Args:
        master: The Spark to run on; None: as ``spark-submit`` says, else this machine.
        name: What Spark calls the program.

    Raises:
        SparkNotStarted: It could not be started.
    """
    # Executors would take whatever Python comes first in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master is None and _SUBMITTED in os.environ:
        return builder.getOrCreate()
    master = master or "local[*]"
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for option in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(option, "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
    try:
        session = builder.master(master).getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkNotStarted(_cause_of(error)) from error
    if is_local:
        _say_failures_once(session)
    return session


def _cause_of(error: Exception) -> str:
    """Return what Spark says, without its stack; of an error of the JVM, which follows a colon."""
    first, *others = str(error).splitlines()
    found = next((line.removeprefix(": ") for line in others if line.startswith(": ")), first)
    return found.rstrip(".")


def _say_failures_once(session: SparkSession) -> None:
    """Keep the tracebacks of tasks off the terminal: what failed is raised, in one line."""
    jvm = session.sparkContext._jvm  # noqa: SLF001 - there is no other way to a single logger
    assert jvm is not None, "the session runs"
    off = jvm.org.apache.logging.log4j.Level.OFF
    for name in TASK_LOGGERS:
        jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(name, off)


@contextmanager
def explained() -> Iterator[None]:
    """Turn the traceback of an executor into the error that the executor raised.

    Raises:
        ExecutorFailed: An executor raised one of our errors.
    """
    try:
        yield
    except PythonException as error:
        found = _OWN_ERROR.findall(str(error))
        if not found:
            raise
        raise ExecutorFailed(*found[-1]) from error
