#!/usr/bin/env python3
"""Shows that the example in README.md is the one that is built, and prints what the page says.

usage: readme_example_test.py README.md SOURCE PROGRAM
"""

import pathlib
import re
import subprocess
import sys
import textwrap


def block(page, language):
    """The first fenced block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    if not found:
        sys.exit(f"README.md has no ```{language} block")
    return found[1]


def main():
    page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    source = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    example = textwrap.indent(block(page, "cpp"), "  ", lambda line: line.strip() != "")
    if example not in source:
        sys.exit(f"the example in README.md is not part of {sys.argv[2]}:\n{example}")
    printed = subprocess.run([sys.argv[3]], check=True, capture_output=True, text=True).stdout
    promised = block(page, "text")
    if printed != promised:
        sys.exit(f"README.md promises:\n{promised}\nbut the program prints:\n{printed}")


if __name__ == "__main__":
    main()
