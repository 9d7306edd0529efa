"""Jars from the Maven repository that `mvn` is set up for, in the user's cache folder from the first time on."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

FETCH_TIMEOUT_S = 900
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ternmq.tests</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_WITHOUT_DEPENDENCIES = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jars(name: str, artifacts: Iterable[str], *, alone: Iterable[str] = ()) -> Path:
    """The folder of that name with all jars that run `artifacts` (`group:artifact:version`), and `alone` without what
    these depend on. A folder that exists is complete."""
    folder = cache_folder() / name
    found = folder / "lib"
    if found.is_dir():
        return found
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"{tool} is missing: run tests/interop/install_toolchains.sh")
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = [
        *(_dependency(one) for one in artifacts),
        *(_dependency(one, _WITHOUT_DEPENDENCIES) for one in alone),
    ]
    with tempfile.TemporaryDirectory(dir=folder) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(POM.format(dependencies="".join(dependencies)))
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
        subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={work}/lib"],
            stdout=sys.stderr,
            timeout=FETCH_TIMEOUT_S,
            check=True,
        )
        # Two at the same time: the first rename stays, and both folders hold the same jars.
        if not found.is_dir():
            (Path(work) / "lib").rename(found)
    return found


def cache_folder() -> Path:
    """Where downloads and builds stay between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ternmq"


def _dependency(artifact: str, more: str = "") -> str:
    group, name, version = artifact.split(":")
    coordinates = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{coordinates}{more}</dependency>"
