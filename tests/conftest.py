"""Settings that all tests share; fixtures live in the named plugins of tests/kit."""

import os

from hypothesis import settings

# "fast" and "ci" try the same examples every time; "deep" looks for new ones.
settings.register_profile("fast", derandomize=True, max_examples=10, deadline=None)
settings.register_profile("ci", derandomize=True, max_examples=30, deadline=None)
settings.register_profile("deep", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

pytest_plugins = [
    "tests.clients.migrate.commands",
    "tests.kit.databases",
    "tests.kit.drivers",
    "tests.kit.lakebed",
    "tests.kit.object_stores",
    "tests.kit.postgresql",
    "tests.kit.served",
    "tests.kit.s3_gateway",  # which imports the one before
    "tests.kit.scheduling",
    "tests.kit.spark",
]
