"""The dashboard and the pages on metrics name existing metrics; dashboard and reference all."""

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from lakebed.server.processes.metrics import ProcessMetrics

ROOT: Final = Path(__file__).parents[2]
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "lakebed.json"
PAGE: Final = ROOT / "docs" / "operations.md"
REFERENCE: Final = ROOT / "docs" / "reference" / "metrics.md"
SUFFIXES: Final = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}
OF_PROMETHEUS: Final = {"le", "instance"}
"""Labels that no metric of ours names."""


@cache
def labels_of_series() -> dict[str, set[str]]:
    """The names that can be asked for, each with the labels of its metric."""
    for file in (ROOT / "src").rglob("*.py"):
        if "prometheus_client import" in file.read_text():
            import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts))
    labels = {
        each._name: set(each._labelnames)
        for each in REGISTRY._collector_to_names
        if isinstance(each, MetricWrapperBase)
    }
    found = [*REGISTRY.collect(), *ProcessMetrics(ROOT).collect()]
    return {
        metric.name + suffix: labels.get(metric.name, {"role"})
        for metric in found
        if metric.name.startswith("lakebed_")
        for suffix in SUFFIXES[metric.type]
    }


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return [target["expr"] for each in dashboard["panels"] for target in each.get("targets", ())]


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\blakebed_\w+", expression))


@pytest.mark.parametrize("expression", expressions())
def test_the_metrics_of_panels_exist(expression: str) -> None:
    series = labels_of_series()
    names = names_in(expression)
    assert names
    assert names <= set(series)
    grouped = re.findall(r"by \(([^)]*)\)", expression)
    used = {label.strip() for group in grouped for label in group.split(",")}
    used |= set(re.findall(r"[{,]\s*(\w+)=", expression))
    for name in names:
        assert used - OF_PROMETHEUS <= series[name], name


def test_every_metric_is_shown() -> None:
    shown = {name for expression in expressions() for name in names_in(expression)}
    families = {re.sub("_(total|bucket|count|sum)$", "", name) for name in shown}
    there = {re.sub("_(total|bucket|count|sum)$", "", name) for name in labels_of_series()}
    assert there - families == set()


def test_the_reference_names_every_metric() -> None:
    named = names_in(REFERENCE.read_text())
    series = set(labels_of_series())
    histograms = {name.removesuffix("_bucket") for name in series if name.endswith("_bucket")}
    others = {name for name in series if not re.search("_(bucket|count|sum)$", name)}
    others |= {"lakebed_process_count"}
    assert named == histograms | others
    assert names_in(PAGE.read_text()) <= named | series


def test_panels_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
