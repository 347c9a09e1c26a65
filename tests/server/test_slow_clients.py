from lakebed.server.http.request import (
    RequestRecord,
    begin_record,
    leave_record,
    records_under_way,
)
from lakebed.server.http.slow_clients import Connection, Untaken, stalled


def record(
    *, begun: float, received_at: float, waits: bool, peer: str = "a", is_whole: bool = True
) -> RequestRecord:
    return RequestRecord(
        "id",
        "PUT",
        "/",
        begun,
        peer=peer,
        received_at=received_at,
        is_receiving=waits,
        has_whole_body=is_whole,
    )


NOW = 1000.0
BEFORE = NOW - 60
STOPPED = record(begun=500, received_at=900, waits=True)


def closed(records: list[RequestRecord], *connections: Connection) -> list[Connection]:
    return stalled(records, list(connections), before=BEFORE)


def test_the_connection_of_a_request_that_stands_still_is_closed() -> None:
    its_own = Connection("a", 899.9)
    assert closed([STOPPED], its_own) == [its_own]


def test_others_are_left_alone() -> None:
    assert closed([STOPPED], Connection("b", 899.9)) == []  # of another client
    assert closed([STOPPED], Connection("a", 950.0)) == []  # something came a moment ago
    assert closed([STOPPED], Connection("a", 910.0)) == []  # after all that the request got
    assert closed([STOPPED], Connection("a", 860.0)) == []  # long before


def test_a_request_that_waits_for_nothing_has_not_stopped() -> None:
    working = record(begun=899, received_at=900, waits=False)
    assert closed([working], Connection("a", 899.9)) == []


def test_a_request_that_received_something_of_late_has_not_stopped() -> None:
    assert closed([record(begun=1, received_at=999, waits=True)], Connection("a", 900.0)) == []


def test_a_connection_that_may_be_that_of_a_request_at_work_waits_for_its_end() -> None:
    working = record(begun=898, received_at=898, waits=False)
    its_own = Connection("a", 899.0)
    assert closed([STOPPED, working], its_own) == []
    assert closed([STOPPED], its_own) == [its_own]
    elsewhere = record(begun=898, received_at=898, waits=False, peer="b")
    assert closed([STOPPED, elsewhere], its_own) == [its_own]


def test_a_long_upload_that_goes_on_does_not_protect_those_that_stopped() -> None:
    going_on = record(begun=1, received_at=NOW, waits=True)
    its_own = Connection("a", 899.9)
    assert closed([STOPPED, going_on], its_own, Connection("a", NOW)) == [its_own]


def test_what_came_and_was_not_read_yet_shows_that_the_client_has_not_stopped() -> None:
    assert closed([STOPPED], Connection("a", 899.9, unread=1)) == []


def test_a_request_that_read_its_body_long_after_it_came_is_protected() -> None:
    # The storage is slow: the last byte came at 899, and was read at 960.
    working = record(begun=850, received_at=960, waits=False)
    assert closed([STOPPED, working], Connection("a", 899.0)) == []


def test_a_request_whose_body_nobody_has_read_yet_is_protected() -> None:
    unread = record(begun=800, received_at=800, waits=False, is_whole=False)
    assert closed([STOPPED, unread], Connection("a", 899.9)) == []


def test_on_a_machine_with_too_much_to_do_a_request_may_begin_late() -> None:
    late = record(begun=920, received_at=920, waits=False)
    its_own = Connection("a", 899.9)
    assert closed([STOPPED, late], its_own) == [its_own]
    assert stalled([STOPPED, late], [its_own], before=BEFORE, slack=25.0) == []


def test_a_request_is_under_way_until_its_answer_can_be_out() -> None:
    long_one = begin_record("GET", "/", peer="a", client="a", given_id=None)
    long_one.begun -= 100
    short_one = begin_record("GET", "/", peer="a", client="a", given_id=None)
    for each in (long_one, short_one):
        each.end()
        assert each in records_under_way(left_since=0.0)  # it is being logged
        leave_record(each)
    assert long_one in records_under_way(left_since=long_one.left_at)
    assert short_one not in records_under_way(left_since=short_one.left_at)
    assert long_one not in records_under_way(left_since=long_one.left_at + 0.001)


def untaken(cookie: bytes, *, acknowledged: int, queued: int) -> Connection:
    return Connection("a", 0.0, cookie=cookie, acknowledged=acknowledged, queued=queued)


def test_an_answer_that_nobody_takes_is_cut_off_when_a_stall_has_passed() -> None:
    answer = untaken(b"1", acknowledged=5, queued=100)
    known = Untaken()
    known.look([answer], 0.0)
    assert known.stalled([answer], before=0.0) == []
    known.look([answer], 4.0)
    assert known.stalled([answer], before=0.1) == [answer]


def test_an_answer_of_which_something_is_taken_goes_on() -> None:
    known = Untaken()
    known.look([untaken(b"1", acknowledged=5, queued=100)], 0.0)
    moved = untaken(b"1", acknowledged=6, queued=100)
    known.look([moved], 4.0)
    assert known.stalled([moved], before=0.1) == []
    known.look([moved], 8.0)
    assert known.stalled([moved], before=4.1) == [moved]


def test_a_connection_with_nothing_to_take_has_not_stopped() -> None:
    known = Untaken()
    idle = untaken(b"1", acknowledged=5, queued=0)
    known.look([untaken(b"1", acknowledged=5, queued=1)], 0.0)
    known.look([idle], 4.0)
    assert known.stalled([idle], before=10.0) == []
    # It waits from now on, not since it waited last.
    again = untaken(b"1", acknowledged=5, queued=1)
    known.look([again], 9.0)
    assert known.stalled([again], before=8.0) == []
