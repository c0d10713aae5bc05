#!/usr/bin/env python3
"""Checks that dependencies between modules point down only.

A module is a folder with include/oncebox/ in it. MAY_INCLUDE says which modules its headers and
sources may include; tests may include more. A public header includes only the standard library and
oncebox/, so that a user never needs a client library's headers.
"""

import fnmatch
import re

import project_files

# The first matching line counts. A module may always include itself.
MAY_INCLUDE = [
    ("core", []),
    ("wire", ["core"]),
    ("discovery", ["core"]),
    ("testing", ["core"]),
    ("stores/sql", ["core"]),
    ("stores/conformance", ["core", "testing"]),
    ("stores/open", ["core", "stores/*"]),
    ("stores/http", ["core", "wire"]),
    ("stores/*", ["core", "stores/sql"]),
    ("transports/webhook", ["core", "wire"]),
    ("transports/*", ["core"]),
    ("server", ["core", "wire", "transports/webhook"]),
    ("apps/*", ["core", "wire", "server", "discovery", "stores/*", "transports/*"]),
    ("examples", ["core", "testing", "discovery", "stores/*", "transports/*"]),
    ("benchmarks", ["core", "testing", "stores/*", "transports/*"]),
]

# What the tests of a store may include on top; the tests of other modules may include any module.
TESTS_OF_A_STORE_MAY_ALSO_INCLUDE = ["testing", "stores/conformance"]
STORES_TESTED_WITH_OTHERS = {"stores/open", "stores/http"}

# Made of GoogleTest, and never installed.
TEST_ONLY_MODULES = {"stores/conformance"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
STANDARD_HEADER = re.compile(r"[a-z_0-9]+")


def find_modules(root):
    """Maps every public header (as it is included) to its module, and lists the modules."""
    owners = {}
    for header in project_files.find_files(root, ".hpp"):
        parts = header.relative_to(root).parts
        for depth in range(1, len(parts) - 2):
            if parts[depth : depth + 2] == ("include", "oncebox"):
                owners["/".join(parts[depth + 1 :])] = "/".join(parts[:depth])
    return owners, sorted(set(owners.values()))


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


def check_file(path, text, owners, modules):
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
    owners, modules = find_modules(root)
    for file in project_files.find_files(root, ".hpp", ".cpp"):
        path = file.relative_to(root).as_posix()
        yield from check_file(path, file.read_text(encoding="utf-8"), owners, modules)


if __name__ == "__main__":
    project_files.main(check, "includes: dependencies point down only")
