"""A real reverse proxy, nginx, that gives a server a path of its own; `install_nginx.sh` gets it.

Ports   its listening sockets are opened here and inherited, as an nginx that is upgraded hands them to the next: they
        are free, and who connects before it runs waits.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ENDS_WITHIN_S = 30.0
# Whatever leaves the path is none of ours.
CONFIGURATION = """
daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  proxy_set_header Host $http_host;
  server {{ listen {taking}; location {path}/ {{ proxy_pass http://{upstream}/; }} location / {{ return 418; }} }}
  server {{ listen {passing}; location {path}/ {{ proxy_pass http://{upstream}; }} location / {{ return 418; }} }}
}}
"""


class Nginx(NamedTuple):
    """Its addresses: one takes the path away from what it passes on, the other does not."""

    taking: str
    passing: str


@contextmanager
def nginx(folder: Path, upstream: str, path: str) -> Iterator[Nginx]:
    """Has the server at `upstream` below `path`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ternmq" / "nginx"
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:{cache}:/usr/sbin")
    assert program, "there is no nginx; tests/support/install_nginx.sh gets it"
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        addresses = Nginx(*(f"127.0.0.1:{each.getsockname()[1]}" for each in listening))
        file = folder / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=folder, upstream=upstream, path=path, **addresses._asdict()))
        for each in listening:
            each.setblocking(False)  # nginx takes them as they are
        numbers = [each.fileno() for each in listening]
        environment = {**os.environ, "NGINX": "".join(f"{number};" for number in numbers)}
        command = [program, "-e", "stderr", "-p", str(folder), "-c", str(file)]
        with (folder / "nginx.log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log, env=environment, pass_fds=numbers)
        try:
            yield addresses
            assert process.poll() is None, (folder / "nginx.log").read_text()
        finally:
            process.terminate()  # and its worker, which would outlive it if it was killed
            process.wait(ENDS_WITHIN_S)
