"""Commands of mqadmin, of one release, in one process."""

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.maven import jars

RUNNER = Path(__file__).with_name("RunCommands.java")
TROUBLES = ("Exception", "Error:", "usage: mqadmin", "No route info", "command failed", "CODE:")
"""What mqadmin prints when a command failed; it exits with 0 all the same."""


class MqAdmin:
    """`with MqAdmin("5.5.0", address, home) as mqadmin: mqadmin.run("topicList")`."""

    def __init__(self, version: str, address: str, home: Path) -> None:
        self._version = version
        self._address = address
        self._home = home
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        folder = jars(f"rocketmq-tools-{self._version}", [f"org.apache.rocketmq:rocketmq-tools:{self._version}"])
        settings = self._home / "conf" / "logback_tools.xml"  # which tools of 4.9 don't work without
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("<configuration/>\n")
        places = (f"-Duser.home={self._home}", f"-Drocketmq.home.dir={self._home}")
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", *places)
        self._process = subprocess.Popen(
            ["java", *options, "-cp", f"{folder}/*", str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._home,  # where consumerStatus writes files
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, command: str, *arguments: str, interrupted_after_s: int = 0) -> str:
        """Return what a command prints; 0 lets it run for as long as it does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = (str(interrupted_after_s), command, *arguments, "-n", self._address)
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"mqadmin {command} ended its process")
        return base64.b64decode(answer).decode(errors="replace")
