"""The client commands, run against a server."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.testing.servers.lakebed import LakebedServer


class CommandLine:
    """Runs commands in this process, which is much quicker than a process for each."""

    def __init__(
        self,
        server: LakebedServer,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.environ = {
            "LAKEBED_ENDPOINT": server.endpoint,
            "LAKEBED_ACCESS_KEY_ID": server.access_key_id,
            "LAKEBED_SECRET_ACCESS_KEY": server.secret_access_key,
        }
        for name, value in self.environ.items():
            monkeypatch.setenv(name, value)
        self._capsys = capsys

    def result(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code, and what was printed on both streams."""
        code = running.run(cli.app, list(arguments))
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def __call__(self, *arguments: str) -> str:
        """What a command prints that succeeds."""
        code, printed, said = self.result(*arguments)
        assert (code, said) == (0, ""), (arguments, code, printed, said)
        return printed

    def json(self, *arguments: str) -> Any:
        """The document that a command prints that succeeds."""
        return json.loads(self(*arguments, "--json"))

    def error(self, *arguments: str) -> str:
        """The line that a command says that fails, and prints nothing."""
        code, printed, said = self.result(*arguments)
        assert (code, printed) == (1, ""), (arguments, code, printed, said)
        assert said.startswith("lakebed: ")
        assert said.count("\n") == 1
        return said.removeprefix("lakebed: ").rstrip("\n")

    def process(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "lakebed", *arguments],
            env=os.environ | self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
