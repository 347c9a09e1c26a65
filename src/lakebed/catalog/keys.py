"""Where the catalog's records are: in the partition of their repository.

| keys                                  | what                                         |
|---------------------------------------|----------------------------------------------|
| links/<object uid>                    | addresses that were given out                |
| multiparts/<upload id>                | multipart uploads, open or completed lately  |
| multipart_parts/<upload id>/<number>  | their parts                                  |
| tasks/<id>                            | dumps and restores, running or ended         |
"""

from typing import Final

from lakebed.catalog import records_pb2 as pb
from lakebed.kv.records import Kind

LINKS: Final = Kind(b"links/", pb.Link)
MULTIPARTS: Final = Kind(b"multiparts/", pb.MultipartUpload)
MULTIPART_PARTS: Final = Kind(b"multipart_parts/", pb.MultipartPart)
TASKS: Final = Kind(b"tasks/", pb.Task)
