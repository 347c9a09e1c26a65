"""Workers that hang: what clients see, and what the supervisor does. SIGSTOP stands for a lock."""

import os
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from tests.kit.served import Served, Servers, eventually

PID = b"GET /pid HTTP/1.1\r\nHost: x\r\n\r\n"


def answer_of(connection: socket.socket) -> int:
    """Return the process that answered."""
    data = connection.recv(4096)
    assert data.startswith(b"HTTP/1.1 200 "), data
    return int(data.partition(b"\r\n\r\n")[2])


def ask(served: Served) -> int:
    with served.connect(PID) as connection:
        return answer_of(connection)


def stop(pid: int) -> None:
    """Stop a process, all threads of it; the signal alone takes effect a little later."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def is_stopped() -> bool:
        states = [(each / "stat").read_text().rpartition(") ")[2][0] for each in tasks.iterdir()]
        return set(states) == {"T"}

    eventually(is_stopped)


def run_for(seconds: float) -> None:
    """Let processes run, or be stopped, for a while."""
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > until)


def test_new_connections_are_answered_though_a_worker_hangs(servers: Servers) -> None:
    served = servers.serve(processes={"workers": 3, "hang_seconds": 0})
    hung, *others = sorted(served.worker_pids(3))
    stop(hung)
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect(PID)) for _ in range(60)]
        answered = {answer_of(connection) for connection in opened}
    assert answered == set(others)


def test_connections_that_no_worker_has_accepted_outlive_all_workers(servers: Servers) -> None:
    served = servers.serve(processes={"workers": 2, "hang_seconds": 0})
    before = served.worker_pids()
    for pid in before:
        stop(pid)
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect(PID)) for _ in range(20)]
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert not before & {answer_of(connection) for connection in opened}


def test_a_worker_that_hangs_is_replaced_and_the_others_are_not(servers: Servers) -> None:
    served = servers.serve(processes={"workers": 3, "hang_seconds": 2})
    hung, *others = sorted(served.worker_pids(3))
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect(PID)) for _ in range(30)]
        own = next(each for each in opened if answer_of(each) == hung)
        stop(hung)
        eventually(lambda: "killing and replacing it" in served.log())
        assert f"worker {hung} has not served for 2 seconds" in served.log()
        assert own.recv(1) == b""  # its clients see that it is gone
    after = eventually(lambda: len(pids := {ask(served) for _ in range(60)}) == 3 and pids)
    assert set(others) < after
    assert hung not in after
    assert served.log().count("killing and replacing it") == 1


def test_a_supervisor_that_was_stopped_kills_no_worker(servers: Servers) -> None:
    served = servers.serve(processes={"workers": 2, "hang_seconds": 2})
    workers = served.worker_pids()
    server = [*workers, served.process.pid]
    for pid in server:
        stop(pid)
    run_for(5)
    for pid in reversed(server):  # the supervisor first: it looks before the workers serve
        os.kill(pid, signal.SIGCONT)
    run_for(5)
    assert served.worker_pids() == workers
    assert "killing and replacing it" not in served.log()
