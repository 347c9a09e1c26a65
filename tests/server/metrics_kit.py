"""What a supervisor writes about the processes of its server."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from lakebed.server.http import metrics


def values(folder: Path) -> dict[tuple[str, str], float]:
    """The samples by name and role."""
    text = (folder / metrics.SUPERVISOR_FILE).read_text()
    return {
        (sample.name.removeprefix("lakebed_process_"), sample.labels["role"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
