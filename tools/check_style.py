#!/usr/bin/env python3
"""Checks the rules of style that clang-format does not know."""

import re

import project_files

COLUMNS_MAX = 100
LINES_MAX = {".hpp": 400, ".cpp": 700}
CODE_SUFFIXES = (".cpp", ".hpp", ".py", ".sh", ".cmake", "CMakeLists.txt")
CODE_FILES = {"dev", ".ci/run"}
TEXT_SUFFIXES = CODE_SUFFIXES + (".md", ".txt", ".json", ".toml", ".yml", ".yaml", ".in", ".sql")
TEXT_FILES = CODE_FILES | {".clang-format", ".clang-tidy", ".editorconfig", ".gitignore"}

SNAKE_CASE_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
SLEEP = re.compile(r"\b(sleep_for|sleep_until|u?sleep|nanosleep)\s*\(")
SKIPPED = re.compile(r"\bGTEST_SKIP\b|\bDISABLED_\w")
# What nobody can promise: say what is deduplicated, what is at least once, what is once.
# A list may still meet each record that often.
OVERPROMISE = re.compile(r"exactly[- ]once(?! and in order)", re.IGNORECASE)
# Absolute paths of the machine it was written on, and the hosts packages were fetched from.
MACHINE = re.compile(
    r"(?<![\w.])/(?:work|root|home/\w+)\b(?!-)"
    r"|\bregistry\.[a-z]+\.|\bdeb\.[a-z]+\.(?:org|com)\b|\bpypi\.org\b"
)
# A sender chooses these texts: `../x` as an id leaves the folder of whoever makes a path of it.
CHOSEN_PATH = re.compile(
    r"(?:/[^\s/]*|>\s*\\?[\"']?)\$\{?ONCEBOX_(?:MESSAGE_ID|SOURCE|TOPIC|PARTITION_KEY|HEADER_)"
)


def check_lines(path, text, is_code):
    for number, line in enumerate(text.split("\n"), start=1):
        where = f"{path}:{number}"
        if line != line.rstrip():
            yield f"{where}: white space at the end of the line"
        if OVERPROMISE.search(line):
            yield f"{where}: promises too much; see the delivery contract in README.md"
        if MACHINE.search(line):
            yield f"{where}: names a path or host of the build machine"
        if CHOSEN_PATH.search(line):
            yield f"{where}: a path of what a sender chose; use ONCEBOX_MESSAGE_FILE"
        if not is_code:
            continue
        if len(line) > COLUMNS_MAX:
            yield f"{where}: {len(line)} columns, at most {COLUMNS_MAX}"
        if "\t" in line:
            yield f"{where}: a tab; use spaces"
        if UNFINISHED.search(line):
            yield f"{where}: unfinished work; do it, or write an issue"


def check_cpp(path, text):
    suffix = path[path.rindex(".") :]
    lines = text.count("\n")
    if lines > LINES_MAX[suffix]:
        yield f"{path}: {lines} lines, at most {LINES_MAX[suffix]}; split it"
    if suffix == ".hpp" and not text.startswith("#pragma once\n"):
        yield f"{path}:1: a header starts with #pragma once"
    if "/tests/" in f"/{path}" or path.startswith("stores/conformance/"):
        yield from check_test(path, text)


def check_test(path, text):
    for match in SLEEP.finditer(text):
        where = f"{path}:{project_files.line_of(text, match.start())}"
        yield f"{where}: a test does not sleep; use the fake clock or wait for the event"
    for match in SKIPPED.finditer(text):
        where = f"{path}:{project_files.line_of(text, match.start())}"
        yield f"{where}: a test is not skipped or disabled; fix it or remove it"


def is_listed(root, path):
    """Whether a CMakeLists.txt in a folder above names the file."""
    for folder in list(path.parents)[: len(path.relative_to(root).parts)]:
        listing = folder / "CMakeLists.txt"
        if listing.exists():
            words = re.split(r"[\s()\"]+", listing.read_text(encoding="utf-8"))
            if path.relative_to(folder).as_posix() in words:
                return True
    return False


def must_be_listed(path):
    is_installed = "/include/" in path and not path.startswith("stores/conformance/")
    return path.endswith(".cpp") or (path.endswith(".hpp") and is_installed)


def check(root):
    """Yields every breach of the rules of style."""
    for file in project_files.find_files(root):
        path = file.relative_to(root).as_posix()
        is_code = path.endswith(CODE_SUFFIXES) or path in CODE_FILES
        if not is_code and not path.endswith(TEXT_SUFFIXES) and path not in TEXT_FILES:
            continue
        text = file.read_text(encoding="utf-8")
        yield from check_lines(path, text, is_code)
        if text and not text.endswith("\n"):
            yield f"{path}: no newline at the end of the file"
        if path.endswith((".cpp", ".hpp")):
            yield from check_cpp(path, text)
        if path.endswith((".cpp", ".hpp", ".py", ".sh")):
            if not SNAKE_CASE_NAME.fullmatch(file.name):
                yield f"{path}: file names are snake_case"
        if must_be_listed(path) and not is_listed(root, file):
            yield f"{path}: listed in no CMakeLists.txt, so nothing compiles it"


if __name__ == "__main__":
    project_files.main(check, "style: nothing to complain about")
