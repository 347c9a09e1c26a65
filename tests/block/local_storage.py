"""Local storage for tests, and helpers to inspect the disk."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lakebed.block import Address, BlockStore, LocalSettings, Namespace, open_block

DATA = Namespace.parse("local://data")


def open_local(root: Path) -> BlockStore:
    """Open a store; two stores share no more state than two processes."""
    return open_block(LocalSettings(root))


def writes(store: BlockStore, address: Address) -> list[Callable[[], object]]:
    source = DATA.address("source of copies")
    store.put(source, [b"data"])

    def upload() -> None:
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        try:
            store.complete_upload(address, upload_id, [part])
        finally:
            store.abort_upload(address, upload_id)

    return [
        lambda: store.put(address, [b"data"]),
        lambda: store.create(address, b"data"),
        lambda: store.copy(source, address),
        upload,
    ]


def listed(store: BlockStore, namespace: Namespace = DATA) -> list[str]:
    return [
        namespace.relative(Address.parse(text))
        for batch in store.list_objects(namespace)
        for text in batch.column("address").to_pylist()
    ]


def open_files(root: Path) -> int:
    """Return the number of files and folders below a root that this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # other threads close theirs meanwhile
            count += descriptor.readlink().is_relative_to(root)
    return count


def drafts(root: Path) -> list[Path]:
    return list((root / ".lakebed" / "drafts").iterdir())
