"""Places of files: programs of other versions, and people, find them by these very paths."""

import ast
from pathlib import Path

import lakebed
from lakebed.formats import DumpID, MetaRangeID, RangeID, layout
from lakebed.formats.gc_files import GCMarker, GCRunID

SOURCE = Path(lakebed.__path__[0])


def test_every_file_has_its_place() -> None:
    run = GCRunID("r1")
    assert layout.OWNER_PATH == "_lakebed/owner"
    assert layout.range_path(RangeID("a")) == "_lakebed/ranges/a.parquet"
    assert layout.metarange_path(MetaRangeID("a")) == "_lakebed/metaranges/a.parquet"
    assert layout.dump_path(DumpID("d"), "tags-00000.parquet") == (
        "_lakebed/refs/d/tags-00000.parquet"
    )
    assert layout.state_path("uid") == "_lakebed/gc/uid/state.json"
    assert layout.gc_path("uid", run, "run.json") == "_lakebed/gc/uid/runs/r1/run.json"
    assert layout.marker_path(GCMarker("s3://b/n", "uid", "beef")) == "_lakebed/gc/uid/marks/be"
    assert layout.gc_check_path("uid", "beef") == "_lakebed/gc/uid/checks/beef"
    assert layout.symlinks_folder("main") == "_lakebed/symlinks/main"


def test_no_other_module_makes_up_places() -> None:
    makers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "_lakebed" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        # Docstrings may tell of places; what begins with the folder is one.
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("_lakebed")
    }
    assert makers == {"formats/layout.py"}
