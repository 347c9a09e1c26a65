"""What only the driver of Spanner does, beside its conformance tests."""

from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core.exceptions import Aborted, DeadlineExceeded, InvalidArgument, NotFound
from google.cloud.spanner_v1 import CommitResponse, PartialResultSet, ResultSet
from google.protobuf.struct_pb2 import NULL_VALUE, Value

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import ForeignStore, OutcomeUnknown, StoreUnavailable, UnsafeStore
from lakebed.kv.drivers.google_rpc import Connection
from lakebed.kv.drivers.spanner import CREATE_TABLE, SpannerCells, _merge, _prepare, check_table
from lakebed.kv.fenced import Cell
from lakebed.kv.store import Version

pytestmark = pytest.mark.slow

AS_SPANNER_TELLS_IT = """CREATE TABLE lakebed (
  p BYTES(2048) NOT NULL,
  k BYTES(5120) NOT NULL,
  w BYTES(16) NOT NULL,
  s BYTES(16) NOT NULL,
  v BYTES(MAX),
  e TIMESTAMP,
) PRIMARY KEY(p, k), ROW DELETION POLICY (OLDER_THAN(e, INTERVAL 0 DAY))"""
MARK = Version(bytes(16))
NEW = Cell(Version(b"n" * 16), b"n" * 16, b"value")


def token(text: bytes) -> dict[str, Any]:
    return {"precommit_token": {"precommit_token": text}}


class Service:
    """Answers as it is told, in this order."""

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []

    def _answer(self, request: dict[str, Any], **_: Any) -> Any:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def __call__(self, **_: Any) -> "Service":
        return self

    def get_transport_class(self, _: str) -> Any:
        return lambda **_: None

    execute_sql = commit = rollback = streaming_read = _answer
    get_database_ddl = update_database_ddl = _answer

    def create_session(self, _: dict[str, Any], **__: Any) -> Any:
        return SimpleNamespace(name="session")


def connection(service: Service) -> Connection[Any]:
    return Connection(service, emulator="127.0.0.1:1", database="spanner")


def cells(service: Service) -> SpannerCells:
    made = object.__new__(SpannerCells)
    made._connection = connection(service)
    made._database, made._session, made._options = "database", None, {}
    return made


def begun(rows: int, **more: Any) -> ResultSet:
    return ResultSet(
        metadata={"transaction": {"id": b"tx"}}, stats={"row_count_exact": rows}, **more
    )


def part(*values: str | None, chunked: bool = False) -> PartialResultSet:
    made = PartialResultSet(chunked_value=chunked)
    PartialResultSet.pb(made).values.extend(
        Value(null_value=NULL_VALUE) if value is None else Value(string_value=value)
        for value in values
    )
    return made


def test_the_table_is_known_however_it_is_laid_out() -> None:
    check_table(CREATE_TABLE)
    check_table(AS_SPANNER_TELLS_IT)
    check_table(AS_SPANNER_TELLS_IT.partition(", ROW")[0])


@pytest.mark.parametrize(
    "other",
    [
        AS_SPANNER_TELLS_IT.replace("k BYTES(5120)", "k STRING(5120)"),
        AS_SPANNER_TELLS_IT.replace("KEY(p, k)", "KEY(k)"),
    ],
)
def test_a_table_of_another_shape_is_refused(other: str) -> None:
    with pytest.raises(ForeignStore, match="lakebed is not a Lakebed store"):
        check_table(other)


def test_a_table_that_removes_other_rows_is_refused() -> None:
    with pytest.raises(UnsafeStore, match="may lose records"):
        check_table(AS_SPANNER_TELLS_IT.replace("OLDER_THAN(e,", "OLDER_THAN(created,"))


def test_a_table_that_cannot_be_made_is_said_with_the_reason() -> None:
    nothing = SimpleNamespace(statements=["CREATE TABLE lakebed_of_others (k INT64)"])
    service = Service(nothing, InvalidArgument("Syntax error on line 1"), nothing)
    with pytest.raises(StoreUnavailable, match=r"must use GoogleSQL\): .*Syntax error on line 1"):
        _prepare(connection(service), "database", ThreadRuntime())


def test_a_table_that_another_process_made_first_will_do() -> None:
    nothing = SimpleNamespace(statements=[])
    failed = SimpleNamespace(done=True, error=SimpleNamespace(message="Duplicate name in schema"))
    made = SimpleNamespace(statements=[AS_SPANNER_TELLS_IT])
    service = Service(nothing, SimpleNamespace(operation=failed), made)
    _prepare(connection(service), "database", ThreadRuntime())


def test_values_are_put_together_of_their_pieces() -> None:
    parts = [
        part("a", "b", chunked=True),
        part("c", chunked=True),
        part("d", None, "", chunked=True),
        part("e"),
    ]
    assert list(_merge(parts)) == ["a", "bcd", None, "e"]


def test_a_commit_carries_the_token_of_the_reply_before() -> None:
    again = CommitResponse(**token(b"second"))
    service = Service(begun(1, **token(b"first")), again, CommitResponse())
    assert cells(service).swap(b"p", b"k", MARK, NEW) == NEW
    tokens = [request["precommit_token"].precommit_token for request in service.requests[1:]]
    assert tokens == [b"first", b"second"]


def test_a_swap_that_does_not_match_lets_go_of_its_locks() -> None:
    row = [b64encode(each).decode() for each in (b"k", b"o" * 16, b"o" * 16, b"old")]
    service = Service(begun(0), None, [part(*row)])
    found = cells(service).swap(b"p", b"k", MARK, NEW)
    assert found == Cell(Version(b"o" * 16), b"o" * 16, b"old")
    assert service.requests[1] == {"session": "session", "transaction_id": b"tx"}


@pytest.mark.parametrize("replies", [[Aborted("no")], [begun(1), Aborted("no")]])
def test_a_transaction_that_is_aborted_was_not_applied(replies: list[Any]) -> None:
    with pytest.raises(StoreUnavailable, match="aborted a transaction"):
        cells(Service(*replies)).swap(b"p", b"k", MARK, NEW)


@pytest.mark.parametrize("replies", [[DeadlineExceeded("late")], [begun(1), DeadlineExceeded("")]])
def test_without_a_reply_the_write_may_still_land(replies: list[Any]) -> None:
    with pytest.raises(
        OutcomeUnknown, match="the outcome of a write to spanner is unknown"
    ) as caught:
        cells(Service(*replies)).swap(b"p", b"k", MARK, NEW)
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_session_that_has_ended_is_replaced() -> None:
    made = cells(Service(NotFound("Session not found: session"), []))
    with pytest.raises(StoreUnavailable):
        made.read(b"p", b"k")
    assert made._session is None
    assert made.read(b"p", b"k") is None
    assert made._session == "session"
