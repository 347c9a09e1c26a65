"""The parts of one server process, opened by `lakebed.server.app` and used by its handlers."""

from dataclasses import dataclass

from lakebed.auth import AuthService
from lakebed.base.runtime import Runtime
from lakebed.installation.opening import Foundation
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks.actions import Actions
from lakebed.reclaim.service import Reclaim
from lakebed.server.http.admission import Admission
from lakebed.server.http.presigned import URLSigner
from lakebed.server.http.readiness import Readiness
from lakebed.server.settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of a server process."""

    settings: ServerSettings
    runtime: Runtime
    catalog: Catalog
    reclaim: Reclaim
    actions: Actions
    auth: AuthService
    admission: Admission
    signer: URLSigner
    readiness: Readiness
    foundation: Foundation

    def close(self) -> None:
        self.foundation.close()
