"""Slots: how many there are, who gets them, and when they come back."""

import pytest

from lakebed.server.http.admission import Admission, Overloaded
from lakebed.server.http.fair_pool import share_of
from lakebed.server.http.request import RequestRecord
from lakebed.server.settings import LimitSettings
from tests.server.kit import server


def a_record() -> RequestRecord:
    return RequestRecord("id", "GET", "/", 0.0)


def admission_with(**limits: int) -> Admission:
    """Slots that nobody waits for."""
    return Admission(LimitSettings(queue_seconds=0.0, **limits))


def test_slots_are_given_until_there_are_none_and_come_back() -> None:
    admission = admission_with(work_slots=2, transfer_slots=1)
    records = [a_record() for _ in range(2)]
    for record in records:
        admission.admit_work(record)
    with pytest.raises(Overloaded, match="slots for work"):
        admission.admit_work(a_record())
    admission.admit_transfer(a_record())  # these have slots of their own
    with pytest.raises(Overloaded, match="slots for transfers"):
        admission.admit_transfer(a_record())
    records[0].end()
    records[0].end()  # once more does nothing
    admission.admit_work(a_record())
    with pytest.raises(Overloaded):
        admission.admit_work(a_record())


def admitted(admission: Admission, user: str = "", client: str = "192.0.2.1") -> RequestRecord:
    """A request that has a slot for work, and is known to be somebody's."""
    record = RequestRecord("id", "GET", "/", 0.0, client=client, user=user)
    admission.admit_work(record)
    try:
        admission.claim(record)
    except Overloaded:
        record.end()
        raise
    return record


def test_one_user_does_not_get_all_slots() -> None:
    admission = admission_with(work_slots=8)
    first = [admitted(admission, "ada") for _ in range(share_of(8))]
    with pytest.raises(Overloaded, match="they hold 6 of its 8 slots for work"):
        admitted(admission, "ada")
    others = [admitted(admission, "bob") for _ in range(2)]
    for record in (first[0], others[0]):
        record.end()
    admitted(admission, "ada")


def test_one_address_of_strangers_does_not_get_all_slots_of_strangers() -> None:
    admission = admission_with(work_slots=8)
    for _ in range(share_of(share_of(8))):
        admitted(admission)
    with pytest.raises(Overloaded, match="they hold 5 of its 8 slots for work"):
        admitted(admission)
    admitted(admission, client="192.0.2.2")
    admitted(admission, "ada")  # of the same address, but signed in


def test_strangers_of_many_addresses_do_not_get_all_slots() -> None:
    admission = admission_with(work_slots=8)
    first = [admitted(admission, client=f"2001:db8::{number}") for number in range(share_of(8))]
    with pytest.raises(Overloaded, match="of those who are not signed in: they hold 6 of its 8"):
        admitted(admission, client="2001:db8::ffff")
    admitted(admission, "ada")
    first[0].end()
    admitted(admission, client="2001:db8::ffff")


def test_a_request_that_waits_for_its_body_leaves_its_slot_for_work_to_others() -> None:
    admission = admission_with(work_slots=1, body_slots=1)
    waiting = admitted(admission, "ada")
    assert waiting.slot is not None
    with waiting.slot.while_reading(1):
        other = admitted(admission, "bob")
        assert other.slot is not None
        with pytest.raises(Overloaded, match="slots for bodies"), other.slot.while_reading(1):
            pytest.fail("there is one slot for bodies")
        other.end()
    with pytest.raises(Overloaded):
        admitted(admission, "bob")
    waiting.end()
    admitted(admission, "bob")


def test_a_request_whose_body_came_when_no_slot_is_free_any_more_is_refused() -> None:
    admission = admission_with(work_slots=1, body_slots=1)
    waiting = admitted(admission, "ada")
    assert waiting.slot is not None
    with pytest.raises(Overloaded, match="slots for work"), waiting.slot.while_reading(1):
        other = admitted(admission, "bob")
    waiting.end()
    other.end()
    admitted(admission, "ada").end()


def test_a_transfer_keeps_its_slot_while_it_reads() -> None:
    admission = admission_with(transfer_slots=1)
    record = RequestRecord("id", "PUT", "/", 0.0, user="ada")
    admission.admit_transfer(record)
    assert record.slot is not None
    with record.slot.while_reading(1), pytest.raises(Overloaded):
        admission.admit_transfer(RequestRecord("id", "PUT", "/", 0.0))


def test_bodies_that_are_kept_whole_are_bounded_together() -> None:
    admission = admission_with(json_bytes_max=1000)
    records = [admitted(admission, user) for user in ("ada", "ada", "ada", "bob", "eve")]
    for record in records[:4]:
        assert record.slot is not None
        with record.slot.while_reading(1000):
            pass  # it is kept until the request ends
    last = records[4].slot
    assert last is not None
    with pytest.raises(Overloaded, match="4000 of its 4000 bytes"), last.while_reading(1):
        pytest.fail("there is no memory left")
    records[0].end()
    with last.while_reading(1000):
        pass


def test_bodies_of_one_user_do_not_take_all_memory() -> None:
    admission = admission_with(json_bytes_max=1000)
    records = [admitted(admission, "ada") for _ in range(4)]
    slots = [record.slot for record in records]
    for slot in slots[:3]:
        assert slot is not None
        with slot.while_reading(1000):
            pass
    last = slots[3]
    assert last is not None
    with (
        pytest.raises(Overloaded, match="yours: they hold 3000 of"),
        last.while_reading(1),
    ):
        pytest.fail("the rest is for others")
    others = admitted(admission, "bob")
    assert others.slot is not None
    with others.slot.while_reading(1000):
        pass
    records[0].end()
    with last.while_reading(1000):
        pass


def test_a_body_that_is_larger_than_all_memory_is_taken_if_it_is_the_only_one() -> None:
    """XML may be larger than the JSON that the settings allow."""
    admission = admission_with(json_bytes_max=1000)
    record = admitted(admission, "ada")
    assert record.slot is not None
    with record.slot.while_reading(10_000):
        pass
    record.end()


def test_health_needs_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admission, "admit_work", refuse)
    with server() as world:
        assert world.call("GET", "/healthcheck", pair=None).status_code == 204
        assert world.request("GET", "/healthcheck").status_code == 204
        assert world.request("GET", "/_health").status_code == 200
        assert world.request("GET", "/readiness").status_code == 200
        assert world.call("GET", "/repositories").status_code == 503


def refuse(*_: object) -> None:
    raise Overloaded("busy")


def test_a_request_is_counted_for_who_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admission, "claim", refuse)
    with server() as world:
        assert world.call("GET", "/repositories").status_code == 503
        assert world.call("GET", "/setup_lakefs", pair=None).status_code == 503
        assert world.request("GET", "/presigned/bm8=.bm8=").status_code == 503


def test_a_json_body_is_waited_for_in_a_slot_for_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.server.http.admission._Held.while_reading", refuse)
    with server() as world:
        assert world.call("POST", "/repositories", json={"name": "x"}).status_code == 503
        assert world.call("GET", "/repositories").status_code == 200
