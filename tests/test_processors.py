"""Threads that answer requests stay on one processor; what they start may run anywhere."""

import json
import os
import subprocess
import sys

import pytest

from lakebed import processors
from lakebed.processors import processor_of

# In a process of its own: that its threads stay somewhere is true of a whole process.
_LOOK = """
import json, os, subprocess, sys, threading
from lakebed.processors import running_anywhere, stay_on
from lakebed.runtime import ThreadRuntime

def here():
    return sorted(os.sched_getaffinity(0))

def in_a_child():
    words = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)

def look():
    both = threading.Barrier(2)

    def meet(number):
        both.wait(30)
        return threading.get_ident(), here()

    met = dict(ThreadRuntime().map_parallel(meet, range(2)))
    found["own"] = met.pop(threading.get_ident())
    (found["helper"],) = met.values()
    with running_anywhere():
        found["child"] = in_a_child()
    found["after"] = here()

def stay():
    own = min(os.sched_getaffinity(0))
    if sys.argv[1] == "stays":
        stay_on(own)
    elif sys.argv[1] == "was told by another":
        os.sched_setaffinity(0, {own})
    look()

found = {}
thread = threading.Thread(target=stay)
thread.start()
thread.join()
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("told", "is_own_one", "is_others_one"),
    [("stays", True, False), ("was told by another", True, True), ("nothing", False, False)],
)
def test_only_the_thread_that_was_told_to_stays(
    told: str, is_own_one: bool, is_others_one: bool
) -> None:
    words = [sys.executable, "-c", _LOOK, told]
    found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    everywhere = sorted(os.sched_getaffinity(0))
    own = everywhere[:1] if is_own_one else everywhere
    others = everywhere[:1] if is_others_one else everywhere
    assert found == {"own": own, "helper": others, "child": others, "after": own}


def test_workers_have_processors_if_there_is_one_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "_ALL", {3, 5, 8})
    assert [processor_of(worker, 3) for worker in range(3)] == [3, 5, 8]
    assert [processor_of(worker, 2) for worker in range(2)] == [None, None]
    assert [processor_of(worker, 4) for worker in range(4)] == [None] * 4
    monkeypatch.setattr(processors, "_ALL", set())
    assert processor_of(0, 1) is None
