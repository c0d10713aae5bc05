#!/usr/bin/env python3
"""Checks docs/conformance.md against the tests: no id is missing, no named test is imaginary.

The page has one table row per requirement: | ID | requirement in a few words | proof |. A proof is
  `Suite.Test`, `Suite.Test`   tests that name the id with proves("ID") in their body,
  `ctest:name`                 a ctest test that is not a GoogleTest,
  type: why                    the C++ type system makes the requirement unnecessary,
  open: capability             it belongs to a capability that does not exist yet.
Tests may be followed by "; open: capability" when they show only a part.
"""

import re

import project_files

PAGE = "docs/conformance.md"
# Prefix, highest number, digits.
FAMILIES = [("IBX", 130, 3), ("R", 38, 2), ("KIN", 11, 2), ("PKT", 11, 2), ("MSG", 10, 2)]

ID = re.compile(r"\b(?:" + "|".join(family[0] for family in FAMILIES) + r")-\d+\b")
ROW = re.compile(r"^\|\s*([A-Z]+-\d+)\s*\|(.*)\|\s*$")
UNESCAPED_BAR = re.compile(r"(?<!\\)\|")
PROOF_BY_WORDS = re.compile(r"(type|open):\s*\S")
PROOF_BY_TESTS = re.compile(r"(`[^`]+`(?:\s*,\s*`[^`]+`)*)(?:\s*;\s*open:\s*\S.*)?")
TEST = re.compile(
    r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)"
    r"\s*\(\s*(\w+)\s*,\s*(\w+)"
)
CLAIM = re.compile(
    r'\bproves\s*\([^;{]*?\)\s*;|\bRecordProperty\s*\(\s*"requirement"\s*,[^;]*?\)\s*;'
)
# Functions of our CMake files that add the ctest test <prefix>.<their first argument>.
NAMING_FUNCTIONS = {
    "oncebox_add_cli_test": "cli",
    "oncebox_add_client_test": "clients",
    "oncebox_add_example": "example",
}
# What a brace can hide in, and the braces.
CPP_TOKEN = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'  # string
    r"|'(?:\\[^']+|\\'|[^'\\])'"  # character
    r"|//[^\n]*|/\*.*?\*/"  # comments
    r"|[{}]",
    re.DOTALL,
)


def required_ids():
    return [
        f"{prefix}-{number:0{digits}}"
        for prefix, highest, digits in FAMILIES
        for number in range(1, highest + 1)
    ]


def end_of_block(text, start):
    """The position after the brace that closes the first one opened after start."""
    depth = 0
    for token in CPP_TOKEN.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)


def read_tests(root):
    """Maps every test to (where it stands, the ids it names); and lists claims outside of tests."""
    tests, strays = {}, []
    for file in project_files.find_files(root, ".cpp", ".hpp"):
        text = file.read_text(encoding="utf-8")
        path = file.relative_to(root).as_posix()
        bodies = []
        for match in TEST.finditer(text):
            end = end_of_block(text, match.end())
            bodies.append((match.start(), end))
            claims = CLAIM.finditer(text, match.end(), end)
            where = f"{path}:{project_files.line_of(text, match.start())}"
            ids = tests.setdefault(f"{match[1]}.{match[2]}", (where, set()))[1]
            ids.update(found for claim in claims for found in ID.findall(claim[0]))
        for claim in CLAIM.finditer(text):
            inside = any(start <= claim.start() < end for start, end in bodies)
            if ID.search(claim[0]) and not inside:
                strays.append(f"{path}:{project_files.line_of(text, claim.start())}")
    return tests, strays


def compile_error_names(text):
    """The names that oncebox_add_compile_errors makes: <its name>.<each source>."""
    for call in re.finditer(r"oncebox_add_compile_errors\((\w+)([^)]*)\)", text):
        yield from (f"{call[1]}.{stem}" for stem in re.findall(r"(\w+)\.cpp\b", call[2]))


def read_ctest_names(root):
    """The words of all CMake files, and the names that our functions there make."""
    names = set()
    for file in project_files.find_files(root, "CMakeLists.txt", ".cmake"):
        text = file.read_text(encoding="utf-8")
        names.update(re.split(r"[\s()\"]+", text))
        for function, prefix in NAMING_FUNCTIONS.items():
            found = re.findall(rf"\b{function}\((\w+)", text)
            names.update(f"{prefix}.{name}" for name in found)
        names.update(compile_error_names(text))
    return names


def read_rows(page):
    """Yields (line number, id, cells after the id)."""
    for number, line in enumerate(page.split("\n"), start=1):
        match = ROW.match(line)
        if match:
            yield number, match[1], [cell.strip() for cell in UNESCAPED_BAR.split(match[2])]


def check_row(where, requirement, cells, tests, ctest_names):
    """Yields the problems of one row; returns the tests that it names."""
    if len(cells) != 2 or not cells[0]:
        yield f"{where}: {requirement}: a row is | ID | requirement in a few words | proof |"
        return []
    proof = cells[1]
    if PROOF_BY_WORDS.match(proof):
        return []
    by_tests = PROOF_BY_TESTS.fullmatch(proof)
    if not by_tests:
        yield (
            f"{where}: {requirement}: a proof is `Suite.Test`, `ctest:name`, "
            f"type: why, or open: capability; not {proof!r}"
        )
        return []
    named = re.findall(r"`([^`]+)`", by_tests[1])
    for name in named:
        if name.startswith("ctest:"):
            if name[len("ctest:") :] not in ctest_names:
                yield f"{where}: {requirement}: no CMake file adds the test {name}"
        elif name not in tests:
            yield f"{where}: {requirement}: there is no test {name}"
        elif requirement not in tests[name][1]:
            test_at = tests[name][0]
            yield f'{where}: {requirement}: {name} ({test_at}) lacks proves("{requirement}")'
    return named


def check(root):
    """Yields every difference between docs/conformance.md and the tests."""
    page_file = root / PAGE
    if not page_file.exists():
        yield f"{PAGE}: missing; it maps every requirement to its proof"
        return
    tests, strays = read_tests(root)
    ctest_names = read_ctest_names(root)
    required = required_ids()
    lines, named_by_row = {}, {}

    for number, requirement, cells in read_rows(page_file.read_text(encoding="utf-8")):
        where = f"{PAGE}:{number}"
        if requirement not in required:
            yield f"{where}: {requirement} is no requirement"
            continue
        if requirement in lines:
            yield f"{where}: {requirement} has a row already, in line {lines[requirement]}"
            continue
        lines[requirement] = number
        named_by_row[requirement] = yield from check_row(
            where, requirement, cells, tests, ctest_names
        )

    for requirement in required:
        if requirement not in lines:
            yield f"{PAGE}: no row for {requirement}"
    for name, (where, ids) in tests.items():
        for requirement in sorted(ids):
            if requirement not in required:
                yield f"{where}: {name} proves {requirement}, which is no requirement"
            elif requirement in lines and name not in named_by_row[requirement]:
                row = f"{PAGE}:{lines[requirement]}"
                yield f"{where}: {name} proves {requirement}, but its row does not name it ({row})"
    for where in strays:
        yield f"{where}: proves() outside of a test; a requirement is named where it is shown"


if __name__ == "__main__":
    project_files.main(check, f"conformance: {len(required_ids())} requirements are accounted for")
