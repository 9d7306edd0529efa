"""The programs that judge: h2spec, and grpc-go's interop client, built once."""

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

from tests.interop.programs import Programs

_PROGRAMS = Programs("conformance", Path(__file__).parent)
_CASE_TIMEOUT_S = 3
_RUN_TIMEOUT_S = 240
_OUTPUT_TAIL_CHARACTERS = 2000


def build() -> Path:
    """The folder of the programs."""
    return _PROGRAMS.build("go-tools") / "bin"


async def run(*command: str) -> tuple[int, str]:
    """Exit code and output of a program."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_RUN_TIMEOUT_S):
            output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")[-_OUTPUT_TAIL_CHARACTERS:]


async def h2spec(port: int, path: str, report: Path) -> dict[str, str]:
    """All cases, by a name like `http2/5.1.1#2`; what they found is empty for those that passed."""
    where = ("-h", "127.0.0.1", "-p", str(port), "-P", path, "-o", str(_CASE_TIMEOUT_S), "-j", str(report))
    _, output = await run(str(build() / "h2spec"), *where)
    return await asyncio.to_thread(_cases, report, output)


def _cases(report: Path, output: str) -> dict[str, str]:
    assert report.exists(), output
    found = dict[str, str]()
    for section in ET.parse(report).getroot():
        for number, case in enumerate(section, 1):
            wrong = [f"{each.tag}: {' / '.join((each.text or '').split(chr(10)))}" for each in case]
            found[f"{case.get('package')}#{number}"] = f"{case.get('classname')}: {wrong[0]}" if wrong else ""
    return found


def differences(found: Mapping[str, str], exceptions: Mapping[str, str]) -> list[str]:
    """What is not as it should be: a case that fails without an argument, and an argument without a failure."""
    failed = [f"{name} fails: {what}" for name, what in found.items() if what and name not in exceptions]
    idle = [f"{name} passes, or is not there: no exception is needed" for name in exceptions if not found.get(name)]
    return failed + idle
