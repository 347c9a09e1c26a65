"""Whose address a request is taken to come from."""

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth.policy.addresses import Address
from lakebed.server.http.request import UNKNOWN, WARNING_SECONDS, TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::1"])

trusted = st.ip_addresses(network="10.0.0.0/8") | st.just(ip_address("2001:db8::1"))
strangers = st.ip_addresses(network="203.0.113.0/24") | st.ip_addresses(network="2001:db9::/32")
said_by_clients = st.text(st.characters(codec="latin-1"), max_size=30)


def client(peer: str, forwarded: str | None, proxies: TrustedProxies = PROXIES) -> str:
    environ = {"REMOTE_ADDR": peer}
    if forwarded is not None:
        environ["HTTP_X_FORWARDED_FOR"] = forwarded
    return proxies.client_of(environ)


@given(strangers, said_by_clients | trusted.map(str))
def test_forwarded_headers_of_untrusted_clients_are_ignored(peer: Address, said: str) -> None:
    assert client(str(peer), said) == str(peer)


@given(trusted | strangers, said_by_clients | trusted.map(str))
def test_without_trusted_proxies_the_peer_is_the_client(peer: Address, said: str) -> None:
    assert client(str(peer), said, TrustedProxies()) == str(peer)


@given(trusted, strangers, st.lists(trusted, max_size=3), said_by_clients | trusted.map(str))
def test_the_first_stranger_from_the_right_is_the_client(
    peer: Address, sender: Address, between: list[Address], said: str
) -> None:
    header = ", ".join([said, str(sender), *map(str, between)])
    assert client(str(peer), header) == str(sender)


@given(trusted, st.lists(trusted, min_size=1, max_size=3))
def test_if_all_addresses_are_proxies_the_farthest_is_the_client(
    peer: Address, chain: list[Address]
) -> None:
    assert client(str(peer), ",".join(map(str, chain))) == str(chain[0])


def test_a_proxy_that_forwards_for_nobody_is_the_client() -> None:
    assert client("10.0.0.1", None) == "10.0.0.1"


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        ",",
        "unknown",
        "203.0.113.5, unknown",
        "203.0.113.5 10.0.0.1",
        "1.2.3",
        "[",
        "a:b:c",
    ],
)
def test_a_header_that_cannot_be_read_makes_nobody_a_proxy(header: str) -> None:
    assert client("10.0.0.1", header) == UNKNOWN


@given(trusted, st.text(st.characters(codec="latin-1")))
def test_any_header_gives_an_address_or_none(peer: Address, header: str) -> None:
    found = client(str(peer), header)
    assert found == UNKNOWN or str(ip_address(found)) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("203.0.113.5:4711", "203.0.113.5"),
        ("[2001:db9::5]:4711", "2001:db9::5"),
        ("[2001:db9::5]", "2001:db9::5"),
        ("2001:DB9:0::5", "2001:db9::5"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
    ],
)
def test_addresses_may_have_ports_and_many_spellings(text: str, expected: str) -> None:
    assert client("10.0.0.1", text) == expected


@given(st.ip_addresses(v=4, network="10.0.0.0/8"))
def test_a_peer_of_ipv4_may_be_written_as_ipv6(peer: IPv4Address) -> None:
    assert client(f"::ffff:{peer}", None) == str(peer)
    assert client(f"::ffff:{peer}", "203.0.113.5") == "203.0.113.5"
    by_ipv6 = TrustedProxies(["::ffff:10.0.0.0/104"])
    assert client(str(peer), "203.0.113.5", by_ipv6) == "203.0.113.5"


@pytest.mark.parametrize("peer", ["", "unix:", "localhost"])
def test_a_peer_without_an_address_is_unknown(peer: str) -> None:
    assert client(peer, "203.0.113.5", TrustedProxies(["0.0.0.0/0", "::/0"])) == UNKNOWN


def test_a_proxy_that_is_not_trusted_is_named_once_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    proxies = TrustedProxies(clock=lambda: now[0])
    client("10.0.0.5", None, proxies)
    assert not caplog.records
    for now[0] in (0.0, 1.0, WARNING_SECONDS - 1):
        assert client("10.0.0.5", "203.0.113.7", proxies) == "10.0.0.5"
    assert len(caplog.records) == 1
    assert "X-Forwarded-For from 10.0.0.5 ignored" in caplog.text
    now[0] = WARNING_SECONDS
    client("10.0.0.5", "203.0.113.7", proxies)
    assert len(caplog.records) == 2
    client("10.0.0.5", "203.0.113.7", PROXIES)
    assert len(caplog.records) == 2
