"""Programs of ours that a program of Spark's starts."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pyspark

SPARK_HOME: Final = Path(pyspark.__file__).parent

# As the manual says: all that spark-submit needs is a file that ends in .py.
PROGRAM: Final = "from lakebed.clients.cli import main\n\nmain()\n"

SMALL: Final = [
    "--driver-memory", "512m", "--executor-memory", "512m",
    "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.log.level=ERROR",
    "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1",
    "--conf", "spark.driver.bindAddress=127.0.0.1",
]  # fmt: skip


def finished(command: list[str], folder: Path, **environment: str) -> dict[str, Any]:
    """Run a program to its good end; return the JSON that it printed."""
    # What goes to the standard error comes along with spark-submit.
    said = output(command, folder, **environment)
    printed: dict[str, Any] = json.loads(said[said.index(b"{") :])
    return printed


def output(command: list[str], folder: Path, **environment: str) -> bytes:
    """Run a program to its good end; return what it printed."""
    log = folder / "log"
    with log.open("wb") as errors:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
            timeout=600,
            env={**os.environ, **environment},
        )
    assert done.returncode == 0, log.read_text()
    return done.stdout


def submit(*arguments: str) -> list[str]:
    return [str(SPARK_HOME / "bin/spark-submit"), *SMALL, *arguments]
