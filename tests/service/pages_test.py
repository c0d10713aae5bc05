#!/usr/bin/env python3
"""Types what README.md and docs/http-api.md tell a new user to type, and looks at the answers.

  pages_test.py PROGRAM ROOT
"""

import json
import pathlib
import re
import subprocess
import sys

from running_server import running_server

BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SERVED_BY_DEV_RUN = "localhost:8080"

# What the lines of a page are answered, in order: a text that the answer has in it.
EXPECTED = {
    "README.md": [
        '"Accepted"', '"order-1"', '"Settled"', '"Done"', '"DuplicateDone"',
        '"Accepted"', '"order-2"', '"Settled"', "the amount is negative", '"Revived"',
    ],
    "docs/http-api.md": [
        '"Accepted"', '"order-1"', '"Settled"', '"Done"', '"DuplicateDone"',
        '"Accepted"', '"order-2"', '"Settled"', "the amount is negative", '"count":1', '"count":1',
        '"attempts"', '"complete":true', '"lastsSeconds"',
        '"Accepted"', '"Marked"', '"Revived"', "the sign was wrong",
        '"Changed"', '"dryRun":true', '"count":0', '"count":0',
        '"ReviveEdited"',
        '"messages"', '"messages"',
        '"accepted":2',
        '"state":"Open"', '"added":[]',
        '"Acquired"', '"Processed"', '"Processed"',
    ],
}

NDJSON = "\n".join(
    json.dumps({"source": "shop", "messageId": f"line-{i}", "topic": "order.paid", "payload": i})
    for i in range(2)) + "\n"


def curl_lines(page):
    for block in BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("curl "):
                yield line


def check_page(name, program, root):
    lines = list(curl_lines((root / name).read_text(encoding="utf-8")))
    if len(lines) != len(EXPECTED[name]):
        return [f"{name} has {len(lines)} lines to type, {len(EXPECTED[name])} are expected"]
    failures = []
    with running_server(program) as server:
        folder = pathlib.Path(__file__).parent
        for line, expected in zip(lines, EXPECTED[name]):
            if SERVED_BY_DEV_RUN not in line:
                failures.append(f"{name}: this asks no server: {line}")
                continue
            command = line.replace(SERVED_BY_DEV_RUN, f"127.0.0.1:{server.port}")
            command = command.replace("@messages.ndjson", "@-")
            done = subprocess.run(["bash", "-c", command], input=NDJSON, cwd=folder, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0 or expected not in done.stdout:
                failures.append(f"{name}: {line}\n  is answered {done.stdout or done.stderr}"
                                f"\n  without {expected}")
    return failures


def main():
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    failures = [failure for name in EXPECTED for failure in check_page(name, program, root)]
    for failure in failures:
        print("failed:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
