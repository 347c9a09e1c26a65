"""Slots: how many there are, who gets them, and when they come back."""

import pytest
from prometheus_client import REGISTRY

from lakebed.auth import Identity, KeyPair
from lakebed.server.http.admission import (
    ANONYMOUS,
    Admission,
    FairPool,
    Holder,
    Overloaded,
    share_of,
)
from lakebed.server.http.request import RequestRecord
from lakebed.server.settings import LimitSettings
from tests.server.kit import ADMIN, Server, server


def a_record() -> RequestRecord:
    return RequestRecord("id", "GET", "/", 0.0)


def admission_with(**limits: int) -> Admission:
    """Slots that nobody waits for."""
    return Admission(LimitSettings(queue_seconds=0.0, **limits))


def test_slots_are_given_until_there_are_none_and_come_back() -> None:
    admission = admission_with(work_slots=2, transfer_slots=1)
    records = [a_record() for _ in range(2)]
    for record in records:
        admission.admit(record, is_transfer=False)
    with pytest.raises(Overloaded, match="slots for work"):
        admission.admit(a_record(), is_transfer=False)
    admission.admit(a_record(), is_transfer=True)  # these have slots of their own
    with pytest.raises(Overloaded, match="slots for transfers"):
        admission.admit(a_record(), is_transfer=True)
    records[0].end()
    records[0].end()  # once more does nothing
    admission.admit(a_record(), is_transfer=False)
    with pytest.raises(Overloaded):
        admission.admit(a_record(), is_transfer=False)


def admitted(admission: Admission, user: str = "", client: str = "192.0.2.1") -> RequestRecord:
    """A request that has a slot for work, and is known to be somebody's."""
    record = RequestRecord("id", "GET", "/", 0.0, client=client, user=user)
    admission.admit(record, is_transfer=False)
    return record


def test_a_request_whose_user_becomes_known_exchanges_its_slot() -> None:
    admission = admission_with(transfer_slots=1)
    record = a_record()
    admission.admit(record, is_transfer=True)
    record.user = "ada"
    admission.admit(record, is_transfer=True)
    with pytest.raises(Overloaded, match="slots for transfers"):
        admission.admit(a_record(), is_transfer=True)
    record.end()
    admission.admit(a_record(), is_transfer=True)


def test_one_user_does_not_get_all_slots() -> None:
    admission = admission_with(work_slots=8)
    first = [admitted(admission, "ada") for _ in range(share_of(8))]
    with pytest.raises(Overloaded, match="which hold 6 of 8 slots for work"):
        admitted(admission, "ada")
    others = [admitted(admission, "bob") for _ in range(2)]
    for record in (first[0], others[0]):
        record.end()
    admitted(admission, "ada")


def test_one_address_of_strangers_does_not_get_all_slots_of_strangers() -> None:
    admission = admission_with(work_slots=8)
    for _ in range(share_of(share_of(8))):
        admitted(admission)
    with pytest.raises(Overloaded, match="which hold 5 of 8 slots for work"):
        admitted(admission)
    admitted(admission, client="192.0.2.2")
    admitted(admission, "ada")  # of the same address, but signed in


def test_strangers_of_many_addresses_do_not_get_all_slots() -> None:
    admission = admission_with(work_slots=8)
    first = [admitted(admission, client=f"2001:db8::{number}") for number in range(share_of(8))]
    with pytest.raises(Overloaded, match="of unauthenticated clients, which hold 6 of 8"):
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
    admission.admit(record, is_transfer=True)
    assert record.slot is not None
    with record.slot.while_reading(1), pytest.raises(Overloaded):
        admission.admit(RequestRecord("id", "PUT", "/", 0.0), is_transfer=True)


def test_bodies_that_are_kept_whole_are_bounded_together() -> None:
    admission = admission_with(json_bytes_max=1000)
    records = [admitted(admission, user) for user in ("ada", "ada", "ada", "bob", "eve")]
    for record in records[:4]:
        assert record.slot is not None
        with record.slot.while_reading(1000):
            pass  # it is kept until the request ends
    last = records[4].slot
    assert last is not None
    with pytest.raises(Overloaded, match="4000 of 4000 bytes"), last.while_reading(1):
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
        pytest.raises(Overloaded, match="yours, which hold 3000 of"),
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
    monkeypatch.setattr(Admission, "admit", refuse)
    with server() as world:
        assert world.call("GET", "/healthcheck", pair=None).status_code == 204
        assert world.request("GET", "/healthcheck").status_code == 204
        assert world.request("GET", "/_health").status_code == 200
        assert world.request("GET", "/readiness").status_code == 200
        assert world.call("GET", "/repositories").status_code == 503


def refuse(*_: object, **__: object) -> None:
    raise Overloaded("busy")


def taken(world: Server, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Holder]]:
    """Return a list of the slots that requests take from now on, and whom each counts for."""
    admission, found = world.services.admission, list[tuple[str, Holder]]()

    def watch(name: str, pool: FairPool) -> None:
        take = pool.take

        def watched(amount: int, holder: Holder) -> None:
            found.append((name, holder))
            take(amount, holder)

        monkeypatch.setattr(pool, "take", watched)

    watch("work", admission._work)
    watch("transfer", admission._transfers)
    watch("sign-in", admission._sign_ins)
    return found


ADDRESS = (("", "unknown"), ANONYMOUS)
SIGNED_IN = (("admin", ""),)


def test_a_request_takes_one_slot_for_who_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with server() as world:
        assert world.call("GET", "/repositories").status_code == 200
        slots = taken(world, monkeypatch)
        assert world.call("GET", "/repositories").status_code == 200
        world.put("a")
        assert world.call("GET", "/setup_lakefs", pair=None).status_code == 200
        assert world.request("GET", "/presigned/bm8=.bm8=").status_code == 401
        assert slots == [
            ("work", SIGNED_IN), ("transfer", SIGNED_IN), ("work", ADDRESS), ("transfer", ADDRESS)
        ]  # fmt: skip


def test_credentials_are_read_from_the_store_in_a_slot_for_sign_ins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts for the address, and is given back before the request takes its own slot."""
    with server() as world:
        slots, pool = taken(world, monkeypatch), world.services.admission._sign_ins
        lookup = world.services.auth.credentials.lookup
        used: list[int] = []

        def count(access_key_id: str) -> tuple[Identity, str]:
            used.append(pool.used)
            return lookup(access_key_id)

        monkeypatch.setattr(world.services.auth.credentials, "lookup", count)
        assert world.call("GET", "/repositories").status_code == 200
        assert slots == [("sign-in", ADDRESS), ("work", SIGNED_IN)]
        assert (used, pool.used) == ([1], 0)
        slots.clear()
        unknown = KeyPair(access_key_id="AKIAUNKNOWN", secret_access_key="a-secret")
        for _ in range(2):
            assert world.call("GET", "/repositories", pair=unknown).status_code == 401
        assert slots == [("sign-in", ADDRESS)], "a failure is cached, too"
        assert (used, pool.used) == ([1, 1], 0)
        token = world.call("POST", "/auth/login", pair=None, json=LOGIN).json["token"]
        slots.clear()
        headers = {"Authorization": f"Bearer {token}"}
        for _ in range(2):
            answer = world.call("GET", "/repositories", pair=None, headers=headers)
            assert answer.status_code == 200
        assert slots == [("sign-in", ADDRESS), ("work", SIGNED_IN), ("work", SIGNED_IN)]
        assert pool.used == 0


LOGIN = {"access_key_id": ADMIN.access_key_id, "secret_access_key": ADMIN.secret_access_key}


def test_invented_credentials_hold_up_each_other_alone() -> None:
    """While all slots for sign-ins are taken, known users and open operations are served."""
    with server(limits__queue_seconds=0) as world:
        new = world.services.auth.credentials.create("admin")
        assert world.call("GET", "/repositories").status_code == 200  # its credentials are cached
        pool = world.services.admission._sign_ins
        held = [(("", f"192.0.2.{number}"), ANONYMOUS) for number in range(pool._share)]
        for address in held:
            pool.take(1, address)
        unknown = KeyPair(access_key_id="AKIAUNKNOWN", secret_access_key="a-secret")
        refused = world.call("GET", "/repositories", pair=unknown)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "slots for sign-ins" in refused.json["message"]
        headers = {"Authorization": "Bearer invented"}
        assert world.call("GET", "/repositories", pair=None, headers=headers).status_code == 503
        assert world.call("GET", "/repositories").status_code == 200
        world.put("a")
        assert world.call("GET", "/setup_lakefs", pair=None).status_code == 200
        pair = {
            "access_key_id": new.access_key_id,
            "secret_access_key": new.secret_access_key,
        }
        login = world.call("POST", "/auth/login", pair=None, json=pair)
        assert login.status_code == 200, "it has a slot for work already"
        assert world.call("GET", "/healthcheck", pair=None).status_code == 204
        pool.give_back(1, held[0])
        assert world.call("GET", "/repositories", pair=unknown).status_code == 401


def test_a_json_body_is_waited_for_in_a_slot_for_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.server.http.admission._RequestSlot.while_reading", refuse)
    with server() as world:
        assert world.call("POST", "/repositories", json={"name": "x"}).status_code == 503
        assert world.call("GET", "/repositories").status_code == 200


def test_the_metric_of_slots_follows_their_use() -> None:
    slots = admission_with(work_slots=3)
    record = a_record()
    slots.admit(record, is_transfer=False)
    slots.update_metrics()
    assert REGISTRY.get_sample_value("lakebed_http_slots_used", {"slot": "work"}) == 1
    record.end()
    slots.update_metrics()
    assert REGISTRY.get_sample_value("lakebed_http_slots_used", {"slot": "work"}) == 0
