"""The server that is attacked: how it is configured, how much memory it may take and does take."""

import contextlib
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "service"))
from running_server import wait_for_port  # noqa: E402

from memory_limit import memory_limit  # noqa: E402

TOKENS = """honest produce,consume,read honest-secret
attacker produce,consume,read attack-secret
prepare produce,consume,read,operate prepare-secret
"""
CONFIGURATION = """
auth.token_file = "{folder}/tokens"
limits.memory = "{memory}MiB"
# Nobody reads the log, and there is much of it.
log.access = "all"
log.messages = "all"

[[webhooks]]
name = "shop"
secrets = ["literal:webhook-secret"]
signature_header = "X-Signature"
"""
TLS = """
[tls]
certificate = "{folder}/certificate.pem"
key = "{folder}/key.pem"
"""


class Server:
    def __init__(self, process, port):
        self.process = process
        self.port = port

    def mib(self, field):
        """VmHWM, the most memory that it ever had, or VmRSS, what it has."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        for line in status.splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        return None  # It has ended.

    def stop(self, seconds):
        """How it ended after SIGTERM."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"nothing within {seconds} s of SIGTERM"


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "key.pem", "-out",
                    folder / "certificate.pem", "-subj", "/CN=localhost", "-days", "2"],
                   check=True, capture_output=True)
    return folder / "certificate.pem"


@contextlib.contextmanager
def attacked_server(program, folder, memory_mib, tls):
    """Its standard error is a pipe that is never read."""
    (folder / "tokens").write_text(TOKENS)
    (folder / "tokens").chmod(0o600)
    configuration = folder / "oncebox.toml"
    configuration.write_text(
        (CONFIGURATION + TLS if tls else CONFIGURATION).format(folder=folder, memory=memory_mib))
    port_file = folder / "port"
    with memory_limit(memory_mib) as enter:
        server = subprocess.Popen(
            [program.resolve(), "serve", "--config", configuration, "--port", "0", "--port-file",
             port_file], cwd=folder, stderr=subprocess.PIPE, preexec_fn=enter)
        try:
            yield Server(server, wait_for_port(server, port_file, lambda: last_words(server)))
        finally:
            server.kill()
            server.wait()


def last_words(server):
    server.kill()
    return server.stderr.read().decode()
