"""All fuzzing targets; the files beside this one hold them, by what they read."""

from typing import Final

from tests.fuzz import (
    actions,
    api_requests,
    documents,
    files,
    http_requests,
    names,
    policies,
    previews,
    s3_requests,
    signatures,
)
from tests.fuzz.target import Target

_FILES: Final = (
    *(signatures, s3_requests, http_requests, names, policies, documents, files, api_requests),
    *(actions, previews),
)

TARGETS: Final[list[Target]] = [target for file in _FILES for target in file.targets.all]
