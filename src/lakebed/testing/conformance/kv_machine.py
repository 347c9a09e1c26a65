"""Conformance suite of key-value stores: a store and a dict, driven in parallel by Hypothesis."""

from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from lakebed.kv import ABSENT, EXISTS, KeyNotFound, PredicateFailed, Store, Version
from lakebed.kv.store import puts


class Sizes:
    """Sizes that subclasses of the suite may override."""

    bulk: ClassVar[int] = 20_000
    """Number of keys in the largest tests; above 1,100, all page and chunk sizes are exercised."""

    racers: ClassVar[int] = 16
    """Number of concurrent increments of a key, of which one succeeds: a multiple of 4."""

    share: ClassVar[int] = 1
    """Divisor of the number of histories compared with a dict."""

    one_handle: ClassVar[bool] = False
    """Whether a store can be opened only once; the second attempt gets `StoreLocked`."""

    over_a_network: ClassVar[bool | None] = True
    """Whether a read announces its wait for another process; None if the driver's own tests check
    it, because the answer depends on the distance of the server."""


AWKWARD_KEYS = [b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\x00b", b"a/", b"aa", b"\x7f", b"\x80"]
AWKWARD_KEYS += ["grün".encode(), b"\xff", b"\xff\x00", b"\xff\xff"]

_keys = st.one_of(
    st.sampled_from(AWKWARD_KEYS), st.binary(min_size=1, max_size=4), st.binary(min_size=1)
)
_values = st.binary(max_size=20)


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and a dict, and compares their results."""

    versions: Bundle[Version] = Bundle("versions")

    def __init__(self, store: Store, partition: bytes) -> None:
        super().__init__()
        self.store = store
        self.partition = partition
        self.model: dict[bytes, tuple[bytes, Version]] = {}

    @rule(target=versions, key=_keys, value=_values)
    def set(self, key: bytes, value: bytes) -> Version:
        """Write unconditionally."""
        version = self.store.set(self.partition, key, value)
        self.model[key] = (value, version)
        return version

    @rule(target=versions, key=_keys, value=_values, absent=st.booleans())
    def set_if_presence(self, key: bytes, value: bytes, absent: bool) -> Version:
        """Write only if the key exists, or only if it is missing."""
        old = self.model.get(key)
        try:
            version = self.store.set(self.partition, key, value, ABSENT if absent else EXISTS)
        except PredicateFailed:
            assert (old is None) != absent
            return old[1] if old else Version(bytes(16))
        assert (old is None) == absent
        self.model[key] = (value, version)
        return version

    @rule(target=versions, key=_keys, value=_values, version=versions)
    def set_if_version(self, key: bytes, value: bytes, version: Version) -> Version:
        """Write by a version, which may belong to another key."""
        known = [known for known, (_, current) in self.model.items() if current == version]
        holder = known[0] if known else key
        try:
            new = self.store.set(self.partition, holder, value, version)
        except PredicateFailed:
            assert not known
            return version
        assert known
        self.model[holder] = (value, new)
        return new

    @rule(key=_keys)
    def delete(self, key: bytes) -> None:
        """Delete unconditionally."""
        self.store.delete(self.partition, key)
        self.model.pop(key, None)

    @rule(version=consumes(versions))
    def delete_if(self, version: Version) -> None:
        """Delete by a version, if current."""
        for key, (_, current) in list(self.model.items()):
            if current == version:
                self.store.delete(self.partition, key, version)
                del self.model[key]
            else:
                with pytest.raises(PredicateFailed):
                    self.store.delete(self.partition, key, version)

    @rule(items=st.lists(st.tuples(_keys, _values), max_size=5))
    def write(self, items: list[tuple[bytes, bytes]]) -> None:
        self.store.write(puts(self.partition, items))
        for key, value in items:
            item = self.store.get(self.partition, key)
            self.model[key] = (value, item.predicate)

    @rule(keys=st.lists(_keys, max_size=5))
    def get(self, keys: list[bytes]) -> None:
        """Read keys singly and together."""
        for key, item in zip(
            keys, self.store.get_many([(self.partition, key) for key in keys]), strict=True
        ):
            assert (item and (item.value, item.predicate)) == self.model.get(key)
            if key in self.model:
                assert self.store.get(self.partition, key) == item
            else:
                with pytest.raises(KeyNotFound):
                    self.store.get(self.partition, key)

    @rule(start=st.one_of(st.just(b""), _keys), limit=st.one_of(st.none(), st.integers(0, 50)))
    def scan(self, start: bytes, limit: int | None) -> None:
        """Scan a part of the partition."""
        expected = [
            (key, value, version)
            for key, (value, version) in sorted(self.model.items())
            if key >= start
        ]
        assert list(self.store.scan(self.partition, start, limit=limit)) == expected[:limit]
