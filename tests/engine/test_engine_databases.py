"""The engine on a database that is a server of its own: the same histories as in memory."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url
from tests.engine.test_engine_machine import EngineMachine

pytestmark = [pytest.mark.slow, pytest.mark.kv_all]


def test_the_engine_agrees_with_plain_dicts_on_mariadb(monkeypatch: pytest.MonkeyPatch) -> None:
    with mariadb_server() as server:
        monkeypatch.setattr(EngineMachine, "url", mariadb_url(server.port) + "?namespace={name}")
        run_state_machine_as_test(EngineMachine, settings=settings(max_examples=5))
