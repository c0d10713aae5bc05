"""Runs the real program in a folder and an environment of its own."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import tempfile
import termios
import unittest

PROGRAM = os.environ["ONCEBOX_PROGRAM"]
PROJECT = pathlib.Path(__file__).resolve().parents[3]
# Much longer than anything takes: a test that waits so long has failed.
PATIENCE_S = 240
# How many messages are many: a program that watches itself takes ten times as long for them.
MANY = int(os.environ.get("ONCEBOX_TEST_MANY", "100000"))


class ProgramTest(unittest.TestCase):
    """A test with a folder, in which it runs the program."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.url = "sqlite:queue.db"

    def environment(self, **variables):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ONCEBOX_") and name not in ("NO_COLOR", "TERM")
        }
        return {**kept, "ONCEBOX_URL": self.url, **variables}

    def start(self, *arguments, variables=None, **options):
        """Starts the program; it is killed at the end of the test if it still runs."""
        process = subprocess.Popen(
            [PROGRAM, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(**(variables or {})),
            **options,
        )
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_program(self, *arguments, code=0, data=b"", variables=None):
        """Runs the program to its end, expects its exit code, and answers what it printed."""
        if isinstance(data, str):
            data = data.encode()
        result = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(**(variables or {})),
            input=data,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = f"{arguments}\n{result.stdout[-2000:]!r}\n{result.stderr[-2000:]!r}"
        self.assertEqual(result.returncode, code, said)
        return result

    def out(self, *arguments, **options):
        return self.run_program(*arguments, **options).stdout.decode()

    def err(self, *arguments, code, **options):
        return self.run_program(*arguments, code=code, **options).stderr.decode()

    def json(self, *arguments, **options):
        return json.loads(self.out(*arguments, "--json", **options))

    def json_lines(self, *arguments, **options):
        return [json.loads(line) for line in self.out(*arguments, "--json", **options).splitlines()]

    def send(self, message_id, topic="order.created", data="{}", **options):
        return self.out("send", "--id", message_id, "--topic", topic, "--data", data, **options)

    def record(self, message_id, *arguments):
        return self.json("get", message_id, *arguments)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def script(self, name, text):
        """A shell script, for the program to run."""
        path = self.write(name, f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    @contextlib.contextmanager
    def terminal(self, *arguments, columns=80, variables=None, stdout_only=False):
        """Runs the program on a terminal; yields the process and the terminal's other end."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start(
            *arguments,
            variables=variables,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL if stdout_only else theirs,
        )
        os.close(theirs)
        try:
            yield process, ours
        finally:
            os.close(ours)

    def on_terminal(self, *arguments, **options):
        """What the program writes to a terminal until it ends."""
        with self.terminal(*arguments, **options) as (process, ours):
            written = read_to_the_end(ours)
            process.wait(PATIENCE_S)
        return written.decode()


def is_sanitized(program):
    """Whether it is built with AddressSanitizer or ThreadSanitizer."""
    content = pathlib.Path(program).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


def read_to_the_end(descriptor):
    written = b""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # What a terminal answers when nobody has its other end open.
            return written
        if not part:
            return written
        written += part


def read_until(descriptor, wanted):
    """Reads until the bytes are there; fails when they do not come."""
    written = b""
    while wanted not in written:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
        if not ready:
            raise AssertionError(f"{wanted!r} did not come, but {written!r}")
        part = os.read(descriptor, 65536)
        if not part:
            raise AssertionError(f"{wanted!r} did not come before the end, but {written!r}")
        written += part
    return written
