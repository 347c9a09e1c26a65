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

# Set for programs started by spark-submit, which has all other options.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"

TASK_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
)
"""Loggers that log the traceback of a failed task, twice."""

# Last line of a traceback with a Lakebed error; the JVM's traceback follows.
_OWN_ERROR: Final = re.compile(r"^(lakebed\.[\w.]+): (.*)$", re.MULTILINE)


def new_session(master: str | None = None, *, name: str = "lakebed gc") -> SparkSession:
    """Start Spark, or return the existing session.

    Without `master`, use the one set by ``spark-submit``, else this machine. A local session
    listens on loopback only and has no web page.

    Raises:
        SparkNotStarted: It could not be started.
    """
    # Executors would use the first Python in PATH.
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
        _silence_task_tracebacks(session)
    return session


def _cause_of(error: Exception) -> str:
    """Return Spark's message without the stack; for a JVM error, the part after the colon."""
    first, *others = str(error).splitlines()
    found = next((line.removeprefix(": ") for line in others if line.startswith(": ")), first)
    return found.rstrip(".")


def _silence_task_tracebacks(session: SparkSession) -> None:
    """Silence the tracebacks of tasks: the failure is raised, in one line."""
    jvm = session.sparkContext._jvm  # noqa: SLF001 - there is no other way to a single logger
    assert jvm is not None, "the session runs"
    off = jvm.org.apache.logging.log4j.Level.OFF
    for name in TASK_LOGGERS:
        jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(name, off)


@contextmanager
def explained() -> Iterator[None]:
    """Raise the Lakebed error in an executor's traceback as `ExecutorFailed`."""
    try:
        yield
    except PythonException as error:
        found = _OWN_ERROR.findall(str(error))
        if not found:
            raise
        raise ExecutorFailed(*found[-1]) from error
