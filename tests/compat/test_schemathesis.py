"""The description at /openapi.json and the server behind it agree, whatever is asked.

Every operation is called as its administrator: first with what it must succeed with, so that the
rest is not about things that are not there; then with whatever the description allows, and with
what it does not allow.
"""

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lakebed.server.api.operations import ROUTES, not_implemented
from lakebed.server.api.routes import Route
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.compat.samples import Sample, api_of, authorization, good, make_sample
from tests.kit.rounds import rounds

EXAMPLES: Final = rounds(4, long=300)
CHECKS: Final = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
BY_NAME: Final = {route.operation: route for route in ROUTES}
(NOT_THERE,) = {route.tag for route in not_implemented.routes}
# Once in the life of an installation; the server of this test has had it.
NEVER_AGAIN: Final = {"setup": 409}
TAGS: Final = sorted({route.tag for route in ROUTES})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    """A server of its own: what is drawn may delete anything."""
    with lakebed_server(tmp_path_factory.mktemp("lakebed")) as started:
        yield started


@pytest.fixture(scope="module")
def api(server: LakebedServer) -> Iterator[httpx.Client]:
    with api_of(server) as client:
        yield client


@pytest.fixture(scope="module")
def schema(server: LakebedServer) -> Any:
    return schemathesis.openapi.from_url(f"{server.endpoint}/openapi.json")


def call(server: LakebedServer, case: Case[Any], route: Route) -> int:
    """Make a request and hold the answer against the description; return its status."""
    checks = CHECKS if route.tag == NOT_THERE else [not_a_server_error, *CHECKS]
    answer = case.call_and_validate(
        headers={"Authorization": authorization(server)},
        checks=checks,
        allow_redirects=False,
        timeout=60,
    )
    return int(answer.status_code)


def succeed(server: LakebedServer, sample: Sample, operation: Any, route: Route) -> None:
    """Call an operation with what is there, and see it succeed."""
    wanted = good(route.operation, sample)
    query = {
        each.name: sample.known[each.name] for each in operation.query if each.name in sample.known
    }
    body: dict[str, Any] = {}
    if route.uploads:
        body = {"body": b"content", "media_type": "application/octet-stream"}
    elif wanted.body is not None:
        body = {"body": wanted.body, "media_type": "application/json"}
    case = operation.Case(
        path_parameters={
            name: wanted.path.get(name, sample.known.get(name, "7")) for name in route.parameters
        },
        query={**query, **wanted.query},
        **body,
    )
    status = call(server, case, route)
    assert status == NEVER_AGAIN.get(route.operation, route.status), route.operation


@st.composite
def cases(draw: st.DrawFn, operation: Any, sample: Sample) -> Case[Any]:
    """Any request that the description allows, or almost; most of them about what is there."""
    mode = draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    case: Case[Any] = draw(operation.as_strategy(generation_mode=mode))
    for drawn in (case.path_parameters, case.query, case.body):
        if isinstance(drawn, dict):
            for name in drawn:
                if name in sample.known and draw(st.integers(0, 3)):
                    drawn[name] = sample.known[name]
    return case


@pytest.mark.parametrize("tag", TAGS)
def test_every_answer_is_as_described(
    server: LakebedServer, api: httpx.Client, schema: Any, tag: str
) -> None:
    shared = make_sample(server, api, {"repository", "user"})
    for found in schema.get_all_operations():
        operation = found.ok()
        route = BY_NAME[operation.definition.raw["operationId"]]
        if route.tag != tag:
            continue
        # What changes something may leave nothing for the next one.
        if route.method in {"GET", "HEAD"} or tag == NOT_THERE:
            sample = shared
        else:
            sample = make_sample(server, api, route.parameters)
        succeed(server, sample, operation, route)

        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases(operation, sample))
        def try_others(case: Case[Any]) -> None:
            call(server, case, route)  # noqa: B023 - it is called in this turn of the loop

        try_others()
