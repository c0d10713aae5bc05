#!/usr/bin/env python3
"""Checks that dependencies between modules point down only.

A module is a folder with include/oncebox/ in it, or internal/oncebox/ for headers that are not
installed. MAY_INCLUDE says which modules its headers and sources may include; tests may include
more. A public header includes only the standard library and oncebox/, so that a user never needs a
client library's headers, and no internal header, which no user has.
"""

import fnmatch
import re

import project_files

# What a user's program is made of.
LIBRARY = ["core", "fleet", "dispatch", "receive", "operate"]

# The first matching line counts. A module may always include itself.
MAY_INCLUDE = [
    ("core", []),
    ("engine", ["core"]),
    ("fleet", ["core", "engine"]),
    ("dispatch", ["core", "engine", "fleet"]),
    ("receive", ["core", "engine", "fleet", "dispatch"]),
    ("operate", ["core", "engine", "fleet"]),
    ("oncebox", ["core", "fleet", "dispatch", "receive", "operate", "stores/open"]),
    ("wire", ["core"]),
    ("discovery", ["core", "fleet"]),
    ("testing", ["core"]),
    ("stores/sql", ["core"]),
    ("stores/conformance", ["core", "dispatch", "testing"]),
    ("stores/open", ["core", "stores/*"]),
    ("stores/http", ["core", "wire"]),
    ("stores/*", ["core", "stores/sql"]),
    ("transports/webhook", ["core", "dispatch", "wire"]),
    ("transports/*", ["core", "dispatch"]),
    ("server", ["core", "engine", "fleet", "operate", "wire", "transports/webhook"]),
    ("apps/*", LIBRARY + ["wire", "server", "discovery", "stores/*", "transports/*"]),
    ("examples", LIBRARY + ["oncebox", "testing", "discovery", "stores/*", "transports/*"]),
    ("benchmarks", LIBRARY + ["testing", "stores/*", "transports/*"]),
]

# What the tests of a store may include on top; the tests of other modules may include any module.
TESTS_OF_A_STORE_MAY_ALSO_INCLUDE = ["dispatch", "testing", "stores/conformance"]
STORES_TESTED_WITH_OTHERS = {"stores/open", "stores/http"}

# Made of GoogleTest, and never installed.
TEST_ONLY_MODULES = {"stores/conformance"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
STANDARD_HEADER = re.compile(r"[a-z_0-9]+")


def find_modules(root):
    """Maps every header that others may include to its module; and those that are internal."""
    owners = {}
    internal = set()
    for header in project_files.find_files(root, ".hpp"):
        parts = header.relative_to(root).parts
        for depth in range(1, len(parts) - 2):
            kind, name = parts[depth : depth + 2]
            if kind in ("include", "internal") and name == "oncebox":
                included = "/".join(parts[depth + 1 :])
                owners[included] = "/".join(parts[:depth])
                if kind == "internal":
                    internal.add(included)
    return owners, internal


def module_of(path, modules):
    """The module that a file belongs to; examples, benchmarks and tests are their own folder."""
    inside = [module for module in modules if path.startswith(module + "/")]
    if inside:
        return max(inside, key=len)
    # A program has no public headers, and is a module all the same.
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "apps" else parts[0]


def matches(module, patterns):
    return any(fnmatch.fnmatch(module, pattern) for pattern in patterns)


def allowed_modules(module, is_test):
    """Patterns of the modules that a file may include; None when there is no rule for its own."""
    if module == "tests":
        return ["*"]
    for pattern, allowed in MAY_INCLUDE:
        if fnmatch.fnmatch(module, pattern):
            if not is_test:
                return allowed
            if module.startswith("stores/") and module not in STORES_TESTED_WITH_OTHERS:
                return allowed + TESTS_OF_A_STORE_MAY_ALSO_INCLUDE
            return ["*"]
    return None


def check_file(path, text, owners, internal):
    modules = sorted(set(owners.values()))
    module = module_of(path, modules)
    in_module = path[len(module) + 1 :]
    is_test = module == "tests" or in_module.startswith("tests/")
    is_public = in_module.startswith("include/")
    allowed = allowed_modules(module, is_test)
    if allowed is None:
        yield f"{path}: no rule for module {module}; add it to MAY_INCLUDE in check_includes.py"
        return

    for match in INCLUDE.finditer(text):
        bracket, included = match.groups()
        where = f"{path}:{project_files.line_of(text, match.start())}"
        if included.startswith("oncebox/"):
            owner = owners.get(included)
            if owner is None:
                yield f"{where}: no module has the public header {included}"
            elif owner in TEST_ONLY_MODULES and owner != module and not is_test:
                yield f"{where}: {included} is for tests only"
            elif owner != module and not matches(owner, allowed):
                yield f"{where}: {module} must not include {included} of {owner}"
            elif is_public and included in internal:
                yield f"{where}: a public header must not include {included}, which is internal"
        elif ".." in included.split("/"):
            yield f"{where}: {included} leaves its folder; include by module path"
        elif is_public and module not in TEST_ONLY_MODULES:
            if bracket == '"' or not STANDARD_HEADER.fullmatch(included):
                yield (
                    f"{where}: a public header includes only the standard library and oncebox/, "
                    f"not {included}"
                )


def check(root):
    """Yields every include that breaks the direction of dependencies."""
    owners, internal = find_modules(root)
    for file in project_files.find_files(root, ".hpp", ".cpp"):
        path = file.relative_to(root).as_posix()
        yield from check_file(path, file.read_text(encoding="utf-8"), owners, internal)


if __name__ == "__main__":
    project_files.main(check, "includes: dependencies point down only")
