"""Conditions of reads, alone and together."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.block import Address
from lakebed.lake.model import ObjectStats
from lakebed.server.s3.read_conditions import ConditionResult, evaluate

MODIFIED = datetime(2026, 11, 15, 12, 0, 0, 500_000, tzinfo=UTC)
STATS = ObjectStats(
    path=b"a",
    location=Address.parse("mem://lake/a"),
    size=1,
    checksum="abc",
    mtime=MODIFIED,
    content_type="t/t",
    metadata={},
)


def at(seconds: int) -> str:
    return format_datetime(MODIFIED.replace(microsecond=0) + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("headers", "verdict"),
    [
        ({}, ConditionResult.GO_ON),
        ({"If-Match": '"abc"'}, ConditionResult.GO_ON),
        ({"If-Match": '"x", "abc"'}, ConditionResult.GO_ON),
        ({"If-Match": "*"}, ConditionResult.GO_ON),
        ({"If-Match": '"x"'}, ConditionResult.FAILED),
        ({"If-None-Match": '"x"'}, ConditionResult.GO_ON),
        ({"If-None-Match": '"abc"'}, ConditionResult.NOT_MODIFIED),
        ({"If-None-Match": "*"}, ConditionResult.NOT_MODIFIED),
        ({"If-Modified-Since": at(-1)}, ConditionResult.GO_ON),
        ({"If-Modified-Since": at(0)}, ConditionResult.NOT_MODIFIED),
        ({"If-Unmodified-Since": at(0)}, ConditionResult.GO_ON),
        ({"If-Unmodified-Since": at(-1)}, ConditionResult.FAILED),
        # By ETag is more exact than by time.
        ({"If-Match": '"abc"', "If-Unmodified-Since": at(-1)}, ConditionResult.GO_ON),
        ({"If-None-Match": '"x"', "If-Modified-Since": at(1)}, ConditionResult.GO_ON),
        ({"If-Modified-Since": "nonsense"}, ConditionResult.GO_ON),
    ],
)
def test_the_verdict_of_conditions(headers: dict[str, str], verdict: ConditionResult) -> None:
    assert evaluate(STATS, headers.get) is verdict


@example("Mon, 01 Jan 2026 00:00:00 +" + "9" * 20, "Mon, 01 Jan " + "9" * 20 + " 00:00:00 GMT")
@given(st.text(), st.text())
def test_any_text_for_a_time_gives_a_verdict(since: str, until: str) -> None:
    headers = {"If-Modified-Since": since, "If-Unmodified-Since": until}
    assert evaluate(STATS, headers.get) in ConditionResult
