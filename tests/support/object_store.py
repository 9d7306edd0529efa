"""An object store with the API of S3, in a process of its own: moto, which keeps objects in memory.

Real here   are HTTP, and the clients: Hadoop's S3A in Spark, delta-rs, PyIceberg, pyarrow. A rename is a copy and a
            deletion there, folders do not exist, and several requests make one change.
Not real    is the store: it survives nothing, and answers in a millisecond.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark
from pyarrow.fs import FileSelector, S3FileSystem

from tests.support.maven import jars

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

KEY, SECRET, REGION = "a-key", "a-secret", "us-east-1"
# What S3A of Hadoop 3.5.0 was built with. Its own dependency is a bundle of all of Amazon's services.
SDK_VERSION, ACCELERATOR_VERSION = "2.35.4", "1.3.1"
_SDK = ("s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_READY = "Running on http://"


class ObjectStore:
    """`with ObjectStore() as store: ... store.bucket("lake")`; it is gone with the block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None
        self.endpoint = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-u", "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if _READY in line:
                self.endpoint = line[line.index("http://") :].strip()
                # Else it would wait for somebody to read of its requests.
                self._drain = threading.Thread(target=self._process.stderr.read)
                self._drain.start()
                return self
        raise RuntimeError("moto did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        if self._drain is not None:
            self._drain.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def files(self) -> S3FileSystem:
        """As pyarrow sees it: paths begin with the bucket."""
        return S3FileSystem(access_key=KEY, secret_key=SECRET, endpoint_override=self.endpoint, region=REGION)

    def bucket(self, name: str) -> str:
        """Make a bucket."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            return name

    def names(self, folder: str) -> list[str]:
        """Paths of all objects below a folder, from there on."""
        found = self.files().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        return [one.path.removeprefix(f"{folder}/") for one in found if one.is_file]

    def spark_settings(self) -> list[str]:
        """Options of a pipeline for `s3a://`."""
        settings = {
            "spark.jars": ",".join(map(str, sorted(s3a_jars().glob("*.jar")))),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }
        return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]

    def environment(self) -> dict[str, str]:
        """The keys, where all its clients look."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}


def s3a_jars() -> Path:
    """S3A for the Hadoop of the installed Spark, and the parts of Amazon's SDK that it uses."""
    (hadoop,) = Path(pyspark.__path__[0]).glob("jars/hadoop-client-api-*.jar")
    version = hadoop.stem.removeprefix("hadoop-client-api-")
    sdk: Sequence[str] = [f"software.amazon.awssdk:{part}:{SDK_VERSION}" for part in _SDK]
    s3a = f"org.apache.hadoop:hadoop-aws:{version}"
    accelerator = f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{ACCELERATOR_VERSION}"
    return jars(f"s3a-{version}", sdk, alone=(s3a, accelerator))
