#!/usr/bin/env python3
"""Runs clients that others wrote against a server that is started for them.

  run_clients.py install FOLDER                                  fetches their packages by npm
  run_clients.py test FOLDER PROGRAM SCRIPT [CONFIGURATION]      runs a script with the server's URL
  run_clients.py receive FOLDER PUBLISHER SCRIPT                 runs a script with the sender
  run_clients.py describe FOLDER PROGRAM CONFIGURATION DOCUMENT VALIDATOR
                     calls every operation, and holds the answers against the description

FOLDER, somewhere in the build tree, keeps the packages.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "service"))

from running_server import running_server  # noqa: E402  (its folder was added above)


def install(folder):
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text(encoding="utf-8")
    done = folder / "installed.json"
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        shutil.copy(HERE / "package.json", folder)
        # Its cache would lie in the home folder, which may be missing or read-only.
        environment = {**os.environ, "npm_config_cache": str(folder / "cache")}
        subprocess.run(
            ["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--no-package-lock",
             "--ignore-scripts"], cwd=folder, env=environment, check=True)
        done.write_text(wanted, encoding="utf-8")


def copy_of(script, folder):
    """Node.js looks for packages beside the script."""
    return shutil.copy(HERE / script, folder / script)


def run_test(folder, program, script, configuration=None):
    arguments = ["--config", str(HERE / configuration)] if configuration else []
    with running_server(program, *arguments) as server:
        return subprocess.run(
            ["node", copy_of(script, folder), server.url], check=False).returncode


def receive(folder, publisher, script):
    return subprocess.run(["node", copy_of(script, folder), publisher], check=False).returncode


def describe(folder, program, configuration, document, validator):
    with tempfile.TemporaryDirectory() as work:
        exchanges = pathlib.Path(work) / "exchanges"
        with running_server(program, "--config", str(HERE / configuration)) as server:
            subprocess.run(
                ["node", copy_of("every_operation.mjs", folder), server.url, str(exchanges)],
                check=True)
        return subprocess.run(
            [sys.executable, validator, "--all", document, str(exchanges)],
            check=False).returncode


def main():
    command, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    actions = {"install": install, "test": run_test, "receive": receive, "describe": describe}
    sys.exit(actions[command](folder, *rest))


if __name__ == "__main__":
    main()
