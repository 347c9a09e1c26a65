import pytest

from lakebed.block import BlockSettings, S3Settings
from lakebed.testing.block import BlockConformance
from tests.fixtures.object_stores import BUCKET


class TestS3OnMoto(BlockConformance):
    @pytest.fixture
    def settings(self, moto_settings: S3Settings) -> BlockSettings:
        return moto_settings

    @pytest.fixture
    def place(self) -> str:
        return f"s3://{BUCKET}/somewhere"
