"""Nonsense for the JSON API, made of its OpenAPI file by Schemathesis: `python -m tests.fuzz.json_api [--examples N]`.

Whatever is asked, the answer must be of a status, content type and form that the file has, and no server's error. The
exit code is that of Schemathesis.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from tests.support.stack import ServerProcess

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=100, help="of each operation")
    examples: int = parser.parse_args().examples
    specification = files("ternmq_console.api").joinpath("openapi.json")
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess(Path(folder), "up", "--data-dir", str(Path(folder) / "data"), addresses=("grpc", "http"))
        with server:
            command = [
                *(str(Path(sys.executable).with_name("schemathesis")), "run", str(specification)),
                *("--url", f"http://{server.addresses['http']}", "--max-examples", str(examples)),
                *("--checks", CHECKS, "--workers", "1", "--exclude-operation-id", "UpdateLogLevels"),
            ]
            code = subprocess.run(command, check=False, cwd=folder).returncode
            return code or server.terminate()


if __name__ == "__main__":
    sys.exit(main())
