"""Several processes set up one installation in a file at the same moment, or after a dead one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.auth import Action, Permission
from lakebed.kv import open_store
from tests.auth.kit import NO_ADDRESS, UNCACHED, service

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]


class Child:
    """A process that waits for the word to set up."""

    def __init__(self, url: str, user: str, *, stop_at: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.auth_setup_child", url, user, str(stop_at)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@contextmanager
def children(url: str, *users: str, stop_at: int = 0) -> Iterator[list[Child]]:
    """Processes that are ready."""
    started = [Child(url, user, stop_at=stop_at) for user in users]
    try:
        for child in started:
            assert child.hear() == ["ready"]
        yield started
    finally:
        for child in started:
            child.end()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lakebed.db"


def check_one_winner(url: str, answers: list[list[str]]) -> None:
    won = [answer for answer in answers if answer[0] == "won"]
    assert len(won) == 1
    assert answers.count(["already", "set", "up"]) == len(answers) - 1
    with open_store(url) as store:
        auth = service(store, settings=UNCACHED)
        identity = auth.authenticate(*won[0][1:])
        for action in Action:
            auth.authorize(identity, NO_ADDRESS, Permission(action, "*"))
        for users in (auth.users.list(), auth.memberships.sources_of("Admins")):
            assert [user.id for user in users.items] == [identity.user_id]


def test_one_process_wins(url: str) -> None:
    with children(url, "ann", "bob", "cay") as started:
        for child in started:
            child.go()
        check_one_winner(url, [child.hear() for child in started])


def test_one_process_wins_after_one_that_was_killed_half_way(url: str) -> None:
    # Its user and the membership of that are written; the key is not.
    with children(url, "victim", stop_at=36) as (victim,):
        victim.go()
        assert victim.hear() == ["stopped"]
    with open_store(url) as store:
        auth = service(store)
        assert [user.id for user in auth.users.list().items] == ["victim"]
        assert not auth.is_set_up()
    with children(url, "ann", "bob") as started:
        for child in started:
            child.go()
        check_one_winner(url, [child.hear() for child in started])
