"""Commands of the operator, in real processes."""

import json
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from lakebed.lake.hooks.settings import HookLimits
from tests.kit.served import eventually
from tests.lake.hooks.kit import Ran, run

pytestmark = pytest.mark.slow


def command(
    code: str, *, timeout: str = "1m", args: list[str] | None = None, memory_mib: int = 1024
) -> Ran:
    settings = HookLimits(
        commands={"mine": (sys.executable, "-I", "-c", code)}, command_memory_mib=memory_mib
    )
    properties = {"command": "mine", "args": args or [], "timeout": timeout}
    return run("command", properties, settings=settings)


def test_it_gets_the_event_and_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_KEY", "hush-hush")
    monkeypatch.setenv("LAKEBED_AUTH__SECRET_KEY", "of the server")
    ran = command(
        "import json, os, sys\n"
        "print(json.dumps([json.load(sys.stdin), sys.argv, dict(os.environ)]))",
        args=["--deep", "{{ ENV.LAKEFSACTION_KEY }}", "; rm -rf $HOME"],
    )
    assert ran.error is None
    event, arguments, environment = json.loads(ran.output)
    assert event["repository_id"] == "repo"
    assert arguments == ["-c", "--deep", "*******", "; rm -rf $HOME"]
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "LAKEBED_RUN_ID", "LAKEBED_EVENT"}


def test_its_exit_code_and_output_count() -> None:
    ran = command("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert ran.error == "the command mine failed with exit code 3"
    assert {"out", "err"} < set(ran.output.split())
    ran = command("import os; os.kill(os.getpid(), 15)")
    assert ran.error == "the command mine was ended by signal 15"


def test_commands_not_configured_are_not_run() -> None:
    ran = run("command", {"command": "/bin/sh"}, settings=HookLimits())
    assert "no command '/bin/sh'" in str(ran.error)
    settings = HookLimits(commands={"mine": ("/no/such/program",)})
    ran = run("command", {"command": "mine"}, settings=settings)
    assert ran.error == "/no/such/program cannot be started: it is missing or not executable"


def test_a_program_is_found_in_the_path_or_from_the_root_directory() -> None:
    for program in ("echo", "bin/echo"):
        settings = HookLimits(commands={"mine": (program, "done")})
        ran = run("command", {"command": "mine"}, settings=settings)
        assert (ran.error, ran.output) == (None, "done\n")


def test_memory_is_limited_also_of_processes_that_it_starts() -> None:
    allocates = "print(len(bytearray(300 << 20)))"
    starts = (
        f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {allocates!r}]))"
    )
    for code in (allocates, starts):
        assert command(code).output == f"{300 << 20}\n"
        ran = command(code, memory_mib=200)
        assert ran.error == (
            "the command mine failed with exit code 1 and reports a lack of memory"
            " (hooks.command_memory_mib is 200)"
        )
        assert "MemoryError" in ran.output


def test_memory_that_is_only_reserved_is_not_limited() -> None:
    reserves = "import mmap; mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4020, prot=0)"
    assert command(reserves, memory_mib=200).error is None


def test_a_command_that_ignores_its_input_is_not_waited_for() -> None:
    assert command("import sys; sys.stdin.close(); print('done')").error is None


def test_it_is_killed_at_its_deadline_with_all_that_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    ran = command(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(noted)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)",
        timeout="2s",
    )
    assert "timed out" in str(ran.error)
    for pid in map(int, noted.read_text().split()):
        eventually(partial(is_gone, pid))  # the system takes a moment to end a process


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_child_processes_of_a_command_do_not_delay_the_hook() -> None:
    ran = command(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('started')"
    )
    assert ran.error is None
    assert ran.output == "started\n"


def test_output_without_end_is_cut() -> None:
    ran = command("while True: print('x' * 10000)", timeout="2s")
    assert "timed out" in str(ran.error)
    assert len(ran.output) < (1 << 20) + 200
