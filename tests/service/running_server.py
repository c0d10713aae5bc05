"""A real `oncebox serve` on a port and in a folder of its own, for the tests in this folder."""

import contextlib
import dataclasses
import pathlib
import subprocess
import tempfile
import time


@dataclasses.dataclass
class RunningServer:
    port: int
    pid: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def running_server(program, *arguments):
    """Afterwards it must end with 0 on SIGTERM."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = pathlib.Path(folder) / "port"
        log = open(pathlib.Path(folder) / "log", "w+", encoding="utf-8")
        server = subprocess.Popen(
            [program, "serve", "--port", "0", "--port-file", str(port_file), *arguments],
            cwd=folder, stderr=log)
        try:
            yield RunningServer(wait_for_port(server, port_file, lambda: read(log)), server.pid)
            server.terminate()
            code = server.wait(timeout=240)
            if code != 0:
                raise AssertionError(f"the server ended with {code}:\n{read(log)}")
        finally:
            server.kill()
            server.wait()
            log.close()


def read(log):
    log.seek(0)
    return log.read()


def wait_for_port(server, port_file, read_log):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and server.returncode is None:
        text = port_file.read_text() if port_file.exists() else ""
        if text.endswith("\n"):
            return int(text)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=0.02)
    raise AssertionError(f"the server does not listen:\n{read_log()}")
