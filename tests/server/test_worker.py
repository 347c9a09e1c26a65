"""A worker hands the settings on to the HTTP server."""

from lakebed.server.processes.worker import http_limits
from lakebed.server.settings import LimitSettings, ProcessSettings, ServerSettings


def test_the_limits_of_the_http_server_are_those_of_the_settings() -> None:
    limits = LimitSettings(
        header_bytes_max=5000,
        header_seconds=7.0,
        stall_seconds=11.0,
        body_bytes_per_second=13,
    )
    settings = ServerSettings(limits=limits, processes=ProcessSettings(shutdown_seconds=17))
    found = http_limits(settings, files_max=1000)
    assert (found.threads, found.head_bytes, found.head_seconds) == (limits.threads, 5000, 7.0)
    assert (found.stall_seconds, found.response_bytes_per_second) == (11.0, 13)
    assert (found.shutdown_seconds, found.connections) == (17, 800)
    assert http_limits(settings, files_max=100_000).connections == 10_000
    assert http_limits(settings, files_max=10).connections == 1
