"""Many clients at once, while the processes that answer them are killed: what was acknowledged is
there afterwards.

Each client has keys of its own, so it knows what they may hold: what was last acknowledged, or,
where no answer came, what it asked for as well. Shared keys are only ever created on the condition
that they are not there.
"""

import http.client
import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pytest

from lakebed.block.drivers.local.files import ABANDONED_SECONDS
from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.kit.rounds import rounds
from tests.kit.served import eventually
from tests.system.api_kit import JSON, Answer, RawClient, begin, create_repository, drafts, workers

pytestmark = pytest.mark.extended

CLIENTS: Final = rounds(16, long=32)
KILLS: Final = rounds(2, long=40)
OWN_KEYS: Final = 3
SHARED_KEYS: Final = rounds(100, long=400)
REPOSITORY: Final = "shared-lake"
ON_MAIN: Final = f"/repositories/{REPOSITORY}/branches/main"
AT_MAIN: Final = f"/repositories/{REPOSITORY}/refs/main"
MERGE: Final = f"{AT_MAIN}/merge/merged"

# Nothing was done, or it is not known: the client may try again.
TRY_AGAIN: Final = {429, 503}
Value = bytes | None


@pytest.fixture(params=rounds(["sqlite"], long=["sqlite", "postgresql"]))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakebedServer]:
    settings = {}
    if request.param == "postgresql":
        database: PostgreSQLServer = request.getfixturevalue("postgresql")
        settings = {"database": {"url": database.create_database()}}
    with lakebed_server(tmp_path, settings=settings) as started:
        yield started


@dataclass
class Shared:
    """What the clients found out together."""

    winners: dict[str, list[bytes]] = field(default_factory=dict)
    """For each shared key, who was told to have created it."""
    perhaps: dict[str, set[bytes]] = field(default_factory=dict)
    """For each shared key, who was told nothing."""
    commits: list[str] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client:
    """One client: what it does, and what its keys may hold."""

    def __init__(self, server: LakebedServer, number: int, shared: Shared) -> None:
        self._http = RawClient(server)
        self._number = number
        self._random = random.Random(number)
        self._shared = shared
        self._written = 0
        self.done = 0
        self.unanswered = 0
        self.prefix = f"own/{number}/"
        self.may_hold: dict[str, set[Value]] = {
            f"{self.prefix}{each}": {None} for each in range(OWN_KEYS)
        }

    def step(self) -> None:
        """Do something."""
        actions = [self.upload] * 6 + [self.delete, self.create, self.read, self.list_own] * 2
        actions += [self.commit, self.merge]
        self._random.choice(actions)()
        self.done += 1

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, /, *expected: int, **options: object) -> Answer | None:
        """Make a request; None if it is not known what became of it."""
        try:
            answer = self._http.call(method, path, **options)  # type: ignore[arg-type] # query
        except (OSError, http.client.HTTPException):
            self.unanswered += 1
            return None
        if answer.status in TRY_AGAIN:
            return None
        assert answer.status in expected, (method, path, answer)
        return answer

    def own_key(self) -> str:
        return self._random.choice(list(self.may_hold))

    def new_value(self) -> bytes:
        self._written += 1
        return f"{self._number}-{self._written}".encode()

    def upload(self) -> None:
        key, value = self.own_key(), self.new_value()
        answer = self.ask("POST", f"{ON_MAIN}/objects", 201, path=key, body=value)
        self.may_hold[key] = {value} if answer else self.may_hold[key] | {value}

    def delete(self) -> None:
        key = self.own_key()
        answer = self.ask("DELETE", f"{ON_MAIN}/objects", 204, path=key)
        self.may_hold[key] = {None} if answer else self.may_hold[key] | {None}

    def create(self) -> None:
        key, value = f"shared/{self._random.randrange(SHARED_KEYS)}", self.new_value()
        answer = self.ask(
            "POST",
            f"{ON_MAIN}/objects",
            201,
            412,
            path=key,
            body=value,
            headers={"If-None-Match": "*"},
        )
        with self._shared.lock:
            if answer is None:
                self._shared.perhaps.setdefault(key, set()).add(value)
            elif answer.status == 201:
                self._shared.winners.setdefault(key, []).append(value)

    def read(self) -> None:
        key = self.own_key()
        answer = self.ask("GET", f"{AT_MAIN}/objects", 200, 404, path=key)
        if answer is not None:
            found = answer.body if answer.status == 200 else None
            assert found in self.may_hold[key], (key, found, self.may_hold[key])

    def list_own(self) -> None:
        answer = self.ask("GET", f"{AT_MAIN}/objects/ls", 200, prefix=self.prefix)
        if answer is not None:
            listed = {each["path"] for each in answer.json["results"]}
            for key, values in self.may_hold.items():
                assert key in listed or None in values, key
                assert key not in listed or values != {None}, key

    def commit(self) -> None:
        body = b'{"message": "m"}'
        answer = self.ask("POST", f"{ON_MAIN}/commits", 201, 400, body=body, headers=JSON)
        self._note(answer, 201, "id", "no_changes", self._shared.commits)

    def merge(self) -> None:
        answer = self.ask("POST", MERGE, 200, 400, body=b"{}", headers=JSON)
        self._note(answer, 200, "reference", "no_changes", self._shared.merges)

    def _note(
        self, answer: Answer | None, status: int, name: str, otherwise: str, noted: list[str]
    ) -> None:
        if answer is None:
            return
        if answer.status == status:
            with self._shared.lock:
                noted.append(answer.json[name])
        else:
            assert answer.json["kind"] == otherwise, answer


@dataclass
class Storm:
    """All clients at work, each in a thread, until they are told to stop or one fails."""

    clients: list[Client]
    failures: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, client: Client) -> None:
        try:
            while not self.over.is_set():
                client.step()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failures.append(error)
            self.over.set()
        finally:
            client.close()

    @property
    def done(self) -> int:
        return sum(client.done for client in self.clients)

    def wait(self, steps: int) -> None:
        """Wait until the clients have done some more."""
        enough = self.done + steps
        eventually(lambda: self.done >= enough or self.over.is_set())
        assert self.failures == []


def kill_one(server: LakebedServer, chance: random.Random) -> None:
    """Kill a process that answers, and wait until there is another one."""
    before = eventually(lambda: workers(server))
    chance.choice(before).kill()
    wait_for_another(server, before)


def kill_all(server: LakebedServer) -> None:
    """Kill all processes that answer, and wait until there is another one."""
    before = workers(server)
    for process in before:
        process.kill()
    wait_for_another(server, before)


def wait_for_another(server: LakebedServer, before: list[psutil.Process]) -> None:
    others = {process.pid for process in before}
    eventually(lambda: any(process.pid not in others for process in workers(server)))


@pytest.mark.timeout(rounds(300, long=1800))
def test_acknowledged_writes_survive_the_processes(server: LakebedServer) -> None:
    with RawClient(server) as admin:
        create_repository(admin, REPOSITORY)
        branch = {"name": "merged", "source": "main"}
        assert admin.post_json(f"/repositories/{REPOSITORY}/branches", branch).status == 201
        shared = Shared()
        storm = Storm([Client(server, number, shared) for number in range(CLIENTS)])
        threads = [threading.Thread(target=storm.run, args=(client,)) for client in storm.clients]
        for thread in threads:
            thread.start()
        try:
            chance = random.Random(1)
            for _ in range(KILLS):
                storm.wait(4 * CLIENTS)
                kill_one(server, chance)
        finally:
            storm.over.set()
            for thread in threads:
                thread.join()
        assert storm.failures == []
        unanswered = sum(client.unanswered for client in storm.clients)
        assert unanswered > 0, "nobody noticed the kills"
        admin.close()  # it may be to one that was killed
        check_everything(admin, storm.clients, shared)
        check_drafts(server, admin, unanswered)


def check_everything(admin: RawClient, clients: list[Client], shared: Shared) -> None:
    """Every acknowledged write is there, on the branch and where it is merged to."""
    assert shared.commits
    assert shared.merges
    assert shared.winners
    finish(admin, f"{ON_MAIN}/commits", {"message": "last"})
    finish(admin, MERGE, {})
    for ref in ("main", "merged"):
        for client in clients:
            for key, values in client.may_hold.items():
                assert read(admin, ref, key) in values, (ref, key)
        for key in shared.winners.keys() | shared.perhaps.keys():
            winners = shared.winners.get(key, [])
            assert len(winners) <= 1, key
            allowed: set[Value] = set(winners) or {None, *shared.perhaps[key]}
            assert read(admin, ref, key) in allowed, (ref, key)
    assert set(shared.commits) <= log_of(admin, "main")
    assert set(shared.merges) <= log_of(admin, "merged")


def finish(admin: RawClient, path: str, body: dict[str, str]) -> None:
    answer = admin.post_json(path, body)
    assert answer.status in {200, 201} or answer.json["kind"] == "no_changes", answer


def read(admin: RawClient, ref: str, key: str) -> Value:
    answer = admin.call("GET", f"/repositories/{REPOSITORY}/refs/{ref}/objects", path=key)
    assert answer.status in {200, 404}, answer
    return answer.body if answer.status == 200 else None


def log_of(admin: RawClient, ref: str) -> set[str]:
    found: set[str] = set()
    after = ""
    for _ in range(1000):
        page = admin.call(
            "GET", f"/repositories/{REPOSITORY}/refs/{ref}/commits", amount=1000, after=after
        ).json
        found |= {commit["id"] for commit in page["results"]}
        if not page["pagination"]["has_more"]:
            return found
        after = page["pagination"]["next_offset"]
    pytest.fail("a log without an end")


def check_drafts(server: LakebedServer, admin: RawClient, unanswered: int) -> None:
    """What the killed ones were writing is all that is left, and goes when its time is over."""
    left = len(drafts(server))
    assert left <= unanswered
    with begin(server, f"{ON_MAIN}/objects", "half", ["Content-Length: 2000000"]) as upload:
        upload.sendall(b"x" * 1_000_000)
        eventually(lambda: len(drafts(server)) > left)
        kill_all(server)
    admin.close()
    assert read(admin, "main", "half") is None
    assert len(drafts(server)) > left
    past = time.time() - ABANDONED_SECONDS - 1
    for path in drafts(server):
        os.utime(path, (past, past))
    kill_all(server)
    eventually(lambda: not drafts(server))
    admin.close()
    assert admin.call("GET", "/config").status == 200
