"""The ports of servers that tests start are not taken by the connections of others."""

from pathlib import Path

from lakebed.testing.servers.object_stores import free_ports


def test_ports_of_servers_are_not_those_of_outgoing_connections() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    first, last = map(int, limits.split())
    ports = free_ports(200)
    assert len(set(ports)) == 200
    assert not [port for port in ports if first <= port <= last]
