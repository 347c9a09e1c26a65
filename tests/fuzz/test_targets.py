"""A few inputs of every fuzzing target, the same ones each time; `make fuzz` looks for others."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.all_targets import TARGETS
from tests.fuzz.target import Target
from tests.kit.rounds import rounds


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_input_is_read_or_refused(target: Target) -> None:
    few = settings(
        max_examples=rounds(12, long=500),
        phases=[Phase.generate],  # `make fuzz` looks for smaller inputs too
        suppress_health_check=list(HealthCheck),
    )

    def check(value: object) -> None:
        target.try_one(value)

    few(given(target.inputs)(check))()
