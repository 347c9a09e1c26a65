from lakebed.server.logs import Trace
from lakebed.server.stalls import Connection, stalled


def trace(*, begun: float, received_at: float, waits: bool, peer: str = "a") -> Trace:
    return Trace("id", "PUT", "/", begun, peer=peer, received_at=received_at, is_receiving=waits)


NOW = 1000.0
BEFORE = NOW - 60
STOPPED = trace(begun=500, received_at=900, waits=True)


def closed(traces: list[Trace], *connections: Connection) -> list[Connection]:
    return stalled(traces, list(connections), before=BEFORE)


def test_the_connection_of_a_request_that_stands_still_is_closed() -> None:
    its_own = Connection("a", 899.9)
    assert closed([STOPPED], its_own) == [its_own]


def test_others_are_left_alone() -> None:
    assert closed([STOPPED], Connection("b", 899.9)) == []  # of another client
    assert closed([STOPPED], Connection("a", 950.0)) == []  # something came a moment ago
    assert closed([STOPPED], Connection("a", 910.0)) == []  # after all that the request got
    assert closed([STOPPED], Connection("a", 860.0)) == []  # long before


def test_a_request_that_waits_for_nothing_has_not_stopped() -> None:
    working = trace(begun=899, received_at=900, waits=False)
    assert closed([working], Connection("a", 899.9)) == []


def test_a_request_that_received_something_of_late_has_not_stopped() -> None:
    assert closed([trace(begun=1, received_at=999, waits=True)], Connection("a", 900.0)) == []


def test_a_connection_that_may_be_that_of_a_request_at_work_waits_for_its_end() -> None:
    working = trace(begun=898, received_at=898, waits=False)
    its_own = Connection("a", 899.0)
    assert closed([STOPPED, working], its_own) == []
    assert closed([STOPPED], its_own) == [its_own]
    elsewhere = trace(begun=898, received_at=898, waits=False, peer="b")
    assert closed([STOPPED, elsewhere], its_own) == [its_own]


def test_a_long_upload_that_goes_on_does_not_protect_those_that_stopped() -> None:
    going_on = trace(begun=1, received_at=NOW, waits=True)
    its_own = Connection("a", 899.9)
    assert closed([STOPPED, going_on], its_own, Connection("a", NOW)) == [its_own]
