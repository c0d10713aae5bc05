#!/usr/bin/env python3
"""Runs a script against a server that was started for it, on SQLite.

  run_script.py PROGRAM SCRIPT
"""

import subprocess
import sys

from running_server import running_server

with running_server(sys.argv[1]) as server:
    code = subprocess.run([sys.argv[2], server.url], check=False).returncode
sys.exit(code)
