"""Killing programs of Spark's, with all that they started."""

import subprocess
from contextlib import suppress

import psutil

from tests.kit.served import PATIENCE_SECONDS


def kill_all(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it started; some may be gone already."""
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(process.pid)
        family = [leader, *leader.children(recursive=True)]
        # Stopped first, so that none starts another while the others die.
        for action in (psutil.Process.suspend, psutil.Process.kill):
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    action(each)
        process.wait()
        psutil.wait_procs(family, timeout=PATIENCE_SECONDS)
    process.wait()
