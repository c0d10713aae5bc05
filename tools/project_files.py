"""Finds the project's files and prints what is wrong with them, for the checks in this folder."""

import argparse
import os
import pathlib
import sys

SKIPPED_FOLDERS = {".git", ".cache", "__pycache__", "node_modules"}


def find_files(root, *suffixes):
    """All files below root with one of these suffixes (any, when none is given), sorted."""
    found = []
    for folder, subfolders, names in os.walk(root):
        at_root = pathlib.Path(folder) == root
        subfolders[:] = [
            name
            for name in subfolders
            if name not in SKIPPED_FOLDERS and not (at_root and name == "build")
        ]
        for name in names:
            if not suffixes or name.endswith(suffixes):
                found.append(pathlib.Path(folder, name))
    return sorted(found)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def main(check, success):
    """Runs check(root), which yields problems as text, and exits with 1 if there is one."""
    parser = argparse.ArgumentParser(description=check.__doc__)
    default_root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default_root)
    root = parser.parse_args().root.resolve()
    problems = list(check(root))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problem(s) found by {sys.argv[0]}", file=sys.stderr)
        sys.exit(1)
    print(success)
