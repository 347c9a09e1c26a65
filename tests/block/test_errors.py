import re

import pytest

import lakebed.block.errors
from lakebed.base.errors import LakebedError
from lakebed.block import BlockError, ObjectNotFound

TREE = {
    "BlockError": (LakebedError,),
    "ObjectNotFound": (BlockError, FileNotFoundError),
    "UploadNotFound": (BlockError, LookupError),
    "AlreadyExists": (BlockError, FileExistsError),
    "PreconditionFailed": (BlockError,),
    "Forbidden": (BlockError, PermissionError),
    "Archived": (BlockError,),
    "Locked": (BlockError,),
    "StorageUnavailable": (BlockError,),
    "StorageFull": (lakebed.block.errors.StorageUnavailable,),
    "InvalidArgument": (BlockError, ValueError),
    "InvalidAddress": (lakebed.block.errors.InvalidArgument,),
    "InvalidPart": (lakebed.block.errors.InvalidArgument,),
    "RangeNotSatisfiable": (lakebed.block.errors.InvalidArgument,),
    "NotSupported": (BlockError,),
    "StorageClosed": (BlockError, ValueError),
}


def errors() -> dict[str, type[BlockError]]:
    members = vars(lakebed.block.errors).values()
    return {
        member.__name__: member
        for member in members
        if isinstance(member, type) and issubclass(member, BlockError)
    }


def test_the_tree_is_as_drawn() -> None:
    assert {name: error.__bases__ for name, error in errors().items()} == TREE
    drawn = re.findall(r"[├└]── (\w+)", str(lakebed.block.errors.__doc__))
    assert drawn == list(TREE)


def test_kinds_are_stable_and_unique() -> None:
    kinds = [error.kind for error in errors().values()]
    assert len(set(kinds)) == len(kinds)
    own_names = {
        name: error.kind
        for name, error in errors().items()
        if error.kind != re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
    }
    # The key-value store has an error of the same name.
    assert own_names == {"BlockError": "block", "InvalidArgument": "block_invalid_argument"}


def test_messages_are_plain() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        raise ObjectNotFound("s3://b/x")
    assert str(caught.value) == "no object exists at s3://b/x"
