"""Answers that are given again: only while they are right, and only those that may be."""

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from lakebed.auth import Identity, KeyPair
from lakebed.server.http.repeated_answers import ANSWER_BYTES_MAX, RepeatedAnswers
from lakebed.server.http.request import (
    QUESTION,
    Repeatable,
    begin_record,
    current_record,
    leave_record,
)
from tests.kit.hand_clock import HandClock
from tests.server.kit import ADMIN, REPOSITORY, Server, opened, server

PATH = f"/repositories/{REPOSITORY}"
ANSWER = b"an answer"


class Asked:
    """An application that counts what it is asked, and says how long an answer holds."""

    def __init__(self) -> None:
        self.count = 0
        self.edition: int | None = 1
        self.changes = 0
        self.repeatable: Repeatable | None = Repeatable(1, 1005.0, 0)
        self.status = "200 OK"
        self.answer: Iterable[bytes] = [ANSWER]
        self.counted: list[str] = []
        self.clock = HandClock()
        self.app = RepeatedAnswers(
            self._answer,
            self.clock,
            edition=lambda: self.edition,
            changes=lambda: self.changes,
            count=lambda: self.counted.append("x"),
        )

    def ask(self, question: Any = (b"headers", b"/target", "127.0.0.1")) -> list[bytes]:
        """Ask, in a request of its own; return the body."""
        record = begin_record("GET", "/", client="", given_id=None)
        environ = {} if question is None else {QUESTION: question}
        try:
            body = list(self.app(environ, self._start))
        finally:
            leave_record()
        assert (record.operation, record.user) == ("getThing", "jane")
        return body

    def _answer(self, _environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        self.count += 1
        record = current_record()
        assert record is not None
        record.operation, record.user, record.repeatable = "getThing", "jane", self.repeatable
        start(self.status, [("A", "b")])
        return self.answer

    def _start(self, status: str, headers: list[tuple[str, str]], *_rest: Any) -> Any:
        assert (status, headers) == (self.status, [("A", "b")])


def test_the_same_question_gets_the_same_answer() -> None:
    asked = Asked()
    assert [asked.ask() for _ in range(6)] == [[ANSWER]] * 6
    assert (asked.count, len(asked.counted)) == (2, 4)


@pytest.mark.parametrize(
    "other",
    [
        (b"other headers", b"/target", "127.0.0.1"),
        (b"headers", b"/other", "127.0.0.1"),
        (b"headers", b"/target", "127.0.0.2"),
        None,
    ],
)
def test_another_question_is_asked(other: object) -> None:
    asked = Asked()
    asked.ask()
    asked.ask()
    asked.ask(other)
    assert asked.count == 3


def _set(name: str, value: object) -> Callable[[Asked], None]:
    return lambda asked: setattr(asked, name, value)


@pytest.mark.parametrize(
    "change",
    [
        _set("edition", 2),
        _set("edition", None),
        _set("changes", 1),
        lambda asked: asked.clock.sleep(5.0),
    ],
)
def test_a_question_is_asked_again(change: Callable[[Asked], None]) -> None:
    """Because the store changed or does not tell, permissions changed, or time has passed."""
    asked = Asked()
    asked.ask()
    asked.ask()
    change(asked)
    asked.ask()
    assert asked.count == 3


@pytest.mark.parametrize(
    "change",
    [
        _set("repeatable", None),
        _set("status", "404 Not Found"),
        _set("status", "201 Created"),
        _set("answer", (ANSWER,)),
        _set("answer", [b"x" * ANSWER_BYTES_MAX]),
    ],
)
def test_an_answer_is_not_kept(change: Callable[[Asked], None]) -> None:
    """If the operation does not say so, if it is no success, or is streamed or large."""
    asked = Asked()
    change(asked)
    for _ in range(3):
        asked.ask()
    assert asked.count == 3


def test_what_is_asked_once_leaves_nothing_behind() -> None:
    asked = Asked()
    for number in range(100):
        asked.ask((b"headers", b"/%d" % number, "127.0.0.1"))
    assert len(asked.app._kept) == 0


def test_an_answer_that_hangs_on_nothing_is_kept_for_good() -> None:
    asked = Asked()
    asked.repeatable = Repeatable(None, inf, 0)
    asked.ask()
    asked.ask()
    asked.edition = 2
    asked.changes = 1
    asked.clock.sleep(1e9)
    assert asked.ask() == [ANSWER]
    assert asked.count == 2


# The whole server


@contextmanager
def two_workers(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Two applications over one file, as workers of a server have it open."""
    url = f"sqlite:///{folder}/lakebed.db"
    local = {"blockstore__type": "local", "blockstore__local__root": str(folder / "objects")}
    with ExitStack() as stack:
        one = stack.enter_context(server(database__url=url, **local))
        other = stack.enter_context(opened(database__url=url, **local))
        yield one, other


def ask(asked: Server, target: str, *, pair: KeyPair = ADMIN) -> tuple[int, bytes]:
    """Ask as a connection does whose client sends the same headers again."""
    path, _, query = target.partition("?")
    headers = base64.b64encode(f"{pair.access_key_id}:{pair.secret_access_key}".encode())
    question = (headers, target.encode(), "127.0.0.1")
    answer = asked.call("GET", path, query_string=query, pair=pair, extras={QUESTION: question})
    return answer.status_code, answer.content


QUESTIONS = [
    PATH,
    f"{PATH}/branches/main",
    f"{PATH}/branches/side",
    f"{PATH}/tags/tag",
    f"{PATH}/commits/main",
    f"{PATH}/refs/main/commits",
    *(f"{PATH}/refs/{ref}/objects/stat?path={name}" for ref in ("main", "side") for name in "ab"),
    f"{PATH}/refs/main/objects/ls?prefix=",
]


class Workers(RuleBasedStateMachine):
    """Whatever either worker changes, both answer as if nothing were kept."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        place = self.folder / str(len(list(self.folder.iterdir())))
        place.mkdir()
        self.workers = self._stack.enter_context(two_workers(place))
        self.number = 0

    def teardown(self) -> None:
        self._stack.close()

    @rule(worker=st.sampled_from([0, 1]), question=st.sampled_from(QUESTIONS))
    def ask(self, worker: int, question: str) -> None:
        path, _, query = question.partition("?")
        plain = self.workers[worker].call("GET", path, query_string=query)
        for _ in range(3):
            assert ask(self.workers[worker], question) == (plain.status_code, plain.content)

    @rule(worker=st.sampled_from([0, 1]), branch=st.sampled_from(["main", "side"]))
    def put(self, worker: int, branch: str) -> None:
        self.number += 1
        self.workers[worker].call(
            "POST",
            f"{PATH}/branches/{branch}/objects",
            params={"path": "ab"[self.number % 2]},
            body=str(self.number).encode(),
        )

    @rule(
        worker=st.sampled_from([0, 1]),
        change=st.sampled_from(
            [
                ("DELETE", f"{PATH}/branches/main/objects?path=a", None),
                ("POST", f"{PATH}/branches/main/commits", {"message": "m"}),
                ("POST", f"{PATH}/branches", {"name": "side", "source": "main"}),
                ("DELETE", f"{PATH}/branches/side", None),
                ("POST", f"{PATH}/tags", {"id": "tag", "ref": "main"}),
                ("DELETE", f"{PATH}/tags/tag", None),
                ("POST", f"{PATH}/refs/side/merge/main", {}),
            ]
        ),
    )
    def change(self, worker: int, change: tuple[str, str, object]) -> None:
        method, target, body = change
        path, _, query = target.partition("?")
        self.workers[worker].call(method, path, query_string=query, json=body)


def test_workers_answer_as_if_nothing_were_kept(tmp_path: Path) -> None:
    Workers.folder = tmp_path
    few = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Workers, settings=few)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with two_workers(tmp_path_factory.mktemp("workers")) as (one, _):
        one.put("a")
        # However slow the machine: what is known of users gets old, and usage is written down.
        auth, usage = one.services.auth, one.services.catalog.usage
        auth._known._seconds = auth._rules._seconds = usage._due = 1e9
        yield one


def kept_by(worker: Server, target: str, pair: KeyPair = ADMIN) -> bool:
    """Whether a question is answered without finding out who asks."""
    for _ in range(2):  # the first time, and what is known of the user may be older than the answer
        ask(worker, target, pair=pair)
    status, first = ask(worker, target, pair=pair)
    assert status == 200, first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.services.auth, "authenticate", _fail)
        return ask(worker, target, pair=pair) == (200, first)


def _fail(*_args: object, **_rest: object) -> None:
    raise AssertionError("the question was asked")


@pytest.mark.parametrize(
    "target",
    [PATH, f"{PATH}/refs/main/objects/stat?path=a", f"{PATH}/refs/main/objects/ls"],
)
def test_reads_of_records_are_kept(worker: Server, target: str) -> None:
    assert kept_by(worker, target)


def test_what_is_written_while_an_answer_is_made_makes_another_edition(worker: Server) -> None:
    """Such an answer may have it or not: nobody gets it again."""
    catalog, target = worker.services.catalog, f"{PATH}/refs/main/objects/stat?path=b"
    worker.put("b", b"1")
    ask(worker, target)
    stat = catalog.objects.stat

    def stat_before_a_write(*args: Any) -> Any:
        patch.undo()
        found = stat(*args)
        worker.put("b", b"22")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog.objects, "stat", stat_before_a_write)
        worker.put("b", b"333")
        assert b'"size_bytes":3' in ask(worker, target)[1]
    assert b'"size_bytes":2' in ask(worker, target)[1]


@pytest.mark.parametrize(
    "target",
    [
        f"{PATH}/refs/main/objects/stat?path=a&presign=true",
        f"{PATH}/refs/main/objects/ls?presign=true",
        f"{PATH}/refs/main/objects?path=a",
        "/user",
    ],
)
def test_what_does_not_follow_from_records_is_not_kept(worker: Server, target: str) -> None:
    """URLs that end, the bytes of objects, and whatever did not say that it does."""
    assert not kept_by(worker, target)


def test_a_user_who_may_no_more_is_refused(worker: Server) -> None:
    auth = worker.services.auth
    auth.users.create("jane")
    auth.memberships.add("jane", "Viewers")
    new = auth.credentials.create("jane")
    pair = KeyPair(access_key_id=new.access_key_id, secret_access_key=new.secret_access_key)
    assert kept_by(worker, PATH, pair)
    auth.memberships.remove("jane", "Viewers")
    assert ask(worker, PATH, pair=pair)[0] == 401
    auth.users.delete("jane")
    assert ask(worker, PATH, pair=pair)[0] == 401


@pytest.mark.parametrize("cache", ["_known", "_rules"])
def test_who_asks_while_a_permission_is_taken_away_is_refused_afterwards(
    worker: Server, cache: str
) -> None:
    """Behind the write, before the first and before the last is forgotten of what was known."""
    auth, user = worker.services.auth, f"user-of{cache}"
    auth.users.create(user)
    auth.memberships.add(user, "Viewers")
    new = auth.credentials.create(user)
    pair = KeyPair(access_key_id=new.access_key_id, secret_access_key=new.secret_access_key)
    assert kept_by(worker, PATH, pair)
    clear = getattr(auth, cache).clear
    statuses: list[int] = []

    def clear_when_others_have_asked() -> None:
        statuses.extend(ask(worker, PATH, pair=pair)[0] for _ in range(3))
        clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(getattr(auth, cache), "clear", clear_when_others_have_asked)
        auth.memberships.remove(user, "Viewers")
    assert statuses == [200] * 3  # the removal is not acknowledged yet
    assert ask(worker, PATH, pair=pair)[0] == 401


def test_an_access_key_that_is_deleted_while_its_owner_asks_is_refused_afterwards(
    worker: Server,
) -> None:
    auth = worker.services.auth
    auth.users.create("john")
    auth.memberships.add("john", "Viewers")
    new = auth.credentials.create("john")
    pair = KeyPair(access_key_id=new.access_key_id, secret_access_key=new.secret_access_key)
    assert kept_by(worker, PATH, pair)
    target, sure_until = f"{PATH}/branches/main", auth.sure_until
    assert ask(worker, target, pair=pair)[0] == 200

    def sure_before_the_key_is_deleted(identity: Identity) -> float:
        until = sure_until(identity)
        auth.credentials.delete("john", new.access_key_id)
        return until

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "sure_until", sure_before_the_key_is_deleted)
        assert ask(worker, target, pair=pair)[0] == 200
    assert ask(worker, target, pair=pair)[0] == 401


def test_a_token_is_asked_about_each_time(worker: Server) -> None:
    """It ends by itself, whatever is in the store."""
    token, _ = worker.services.auth.login(ADMIN.access_key_id, ADMIN.secret_access_key)
    headers = {"Authorization": f"Bearer {quote(token)}"}
    question = (b"bearer", PATH.encode(), "127.0.0.1")
    for _ in range(3):
        answer = worker.call("GET", PATH, pair=None, headers=headers, extras={QUESTION: question})
        assert answer.status_code == 200
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.services.auth, "authenticate_token", _fail)
        answer = worker.call("GET", PATH, pair=None, headers=headers, extras={QUESTION: question})
    assert answer.status_code == 500
