"""A Spark that cannot be started: what is wrong is said in words."""

import os
import subprocess
import sys

import pytest

START = """
import sys
from lakebed.base.errors import LakebedError
from lakebed.reclaim.collector.spark import new_session
try:
    new_session(sys.argv[1])
except LakebedError as error:
    print(f"{error.kind}: {error}")
"""


@pytest.mark.parametrize(
    ("master", "environment", "why"),
    [
        ("local[1]", {"JAVA_HOME": "/nowhere"}, "Java gateway process exited"),
        ("local[x]", {}, "Could not parse Master URL: 'local[x]'"),
    ],
)
def test_what_is_wrong_is_said(master: str, environment: dict[str, str], why: str) -> None:
    # In a process of its own: a JVM stays as long as the process that has started it.
    done = subprocess.run(
        [sys.executable, "-c", START, master],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("spark_not_started: Spark could not be started: ")
    assert why in done.stdout
    assert "\tat " not in done.stdout
