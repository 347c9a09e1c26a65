"""Translation of lakeFS's addresses to Lakebed's canonical spelling.

lakeFS also spells addresses as local paths (``local:///var/lakefs/data/x``), ``s3a://``, and with
the second host of an Azure account. An address that the storage cannot read is refused before its
entry is stored: later, the whole commit could not be listed or collected.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import quoted
from lakebed.block import Address, BlockStore, InvalidAddress, Namespace
from lakebed.clients.migrate.errors import UnreadableAddresses

_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "memory": "mem"}
_AZURE_SECOND_HOST: Final = re.compile(r"(?i)(https://[a-z0-9]+)\.dfs\.(core\.)")
_OWN_OBJECT: Final = r"[0-9A-Za-z_-]{1,64}(/[0-9A-Za-z_-]{1,64}){0,3}\z"
"""Path of an object written by lakeFS, relative to the namespace: always readable."""
_NAMESPACE_BYTES_MAX: Final = 500


class AddressTranslator:
    """Translator of addresses in a lakeFS repository, relative to its namespace.

    `local_roots` are root directories of local storage, here or in lakeFS.
    """

    def __init__(self, block: BlockStore, namespace: str, local_roots: Iterable[Path] = ()) -> None:
        self._block = block
        self._roots = [f"{root}/" for root in local_roots]
        self.namespace = Namespace.parse(self._respelled(namespace))
        """The canonical namespace of the lakeFS repository."""
        block.check_address(self.namespace.address("x"))
        # Nearly all addresses match: checked in one pass.
        is_short = len(str(self.namespace).encode()) <= _NAMESPACE_BYTES_MAX
        start = re.escape(str(self.namespace)) if is_short else r"\z."
        self._plain = rf"\A{start}{_OWN_OBJECT}"

    def canonical(self, text: str) -> str:
        """Return the canonical spelling of a whole address."""
        respelled = self._respelled(text)
        # lakeFS's API puts its root before paths that already contain it, too.
        root = next((each for each in self._roots if text.startswith(f"local://{each}")), None)
        if root is not None and not respelled.startswith(str(self.namespace)):
            respelled = respelled.replace(f"local:/{root}", "local://", 1)
        address = Address.parse(respelled)
        self._block.check_address(address)
        return str(address)

    def of_entries(self, entries: pa.Table, name: str) -> pa.Table:
        """Return the entries with canonical addresses; `name` is their source, for errors."""
        addresses = entries.column("address")
        is_plain = pc.match_substring_regex(addresses, self._plain)
        if pc.all(is_plain).as_py():
            return entries
        found: list[str] = []
        refused: list[str] = []
        texts = zip(
            entries.column("key").to_pylist(),
            addresses.to_pylist(),
            is_plain.to_pylist(),
            strict=True,
        )
        for key, text, plain in texts:
            try:
                found.append(text if plain else self.canonical(text))
            except InvalidAddress as error:
                refused.append(f"{quoted(key)} has the address {text!r}: {error}")
        if refused:
            raise UnreadableAddresses(name, refused)
        place = entries.schema.get_field_index("address")
        return entries.set_column(place, entries.schema.field(place), pa.array(found, pa.string()))

    def _respelled(self, text: str) -> str:
        scheme, separator, rest = text.partition("://")
        scheme = _ALIASES.get(scheme.lower(), scheme)
        if scheme == "local" and rest.startswith("/"):
            root = next((each for each in self._roots if rest.startswith(each)), None)
            if root is None:
                roots = ", ".join(each.removesuffix("/") for each in self._roots) or "none"
                raise InvalidAddress(
                    f"not below a root of local storage ({roots}): set blockstore.local.root to a"
                    " folder above it, or pass lakeFS's root as --lakefs-root"
                )
            rest = rest.removeprefix(root)
        return _AZURE_SECOND_HOST.sub(r"\1.blob.\2", f"{scheme}{separator}{rest}", count=1)
