"""What is too slow for every day is left to `make test-long`."""

import os

collect_ignore = [] if os.environ.get("LAKEBED_TEST_LONG") else ["test_cluster.py", "test_azure.py"]
