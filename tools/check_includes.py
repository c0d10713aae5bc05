#!/usr/bin/env python3
"""Checks that dependencies between modules point down only.

A module is a folder with include/oncebox/ in it, or internal/oncebox/ for headers that are not
installed. MAY_INCLUDE says which modules its headers and sources may include; tests may include
more. A public header includes only the standard library and oncebox/, so that a user never needs a
client library's headers, and no internal header, which no user has. Only the header of a codec
includes the library that it is for.

A header that others may include names the standard headers of what it uses itself: builds that
compile many files as one do not show when it leans on another file. (`./dev lint` compiles each
header alone.)
"""

import fnmatch
import re

import project_files

# What a user's program is made of.
LIBRARY = ["core", "fleet", "dispatch", "receive", "operate", "publish"]

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
    ("curl", ["core"]),
    ("discovery", ["core", "fleet"]),
    ("testing", ["core"]),
    ("codecs/*", ["core"]),
    ("stores/sql", ["core"]),
    ("stores/conformance", ["core", "dispatch", "testing"]),
    ("stores/open", ["core", "stores/*"]),
    ("stores/http", ["core", "wire", "curl"]),
    ("stores/*", ["core", "stores/sql"]),
    ("prometheus", ["core", "dispatch"]),
    ("otlp", ["core", "curl"]),
    ("transports/webhook", ["core", "dispatch", "wire", "curl"]),
    ("transports/*", ["core", "dispatch"]),
    ("publish", ["core", "fleet", "dispatch", "wire", "transports/webhook"]),
    (
        "server",
        ["core", "engine", "fleet", "operate", "wire", "prometheus", "transports/webhook",
         "dispatch", "publish"],
    ),
    ("apps/*", LIBRARY + ["wire", "server", "discovery", "prometheus", "stores/*", "transports/*"]),
    (
        "examples",
        LIBRARY
        + ["oncebox", "testing", "discovery", "prometheus", "otlp", "server"]
        + ["codecs/*", "stores/*", "transports/*"],
    ),
    ("benchmarks", LIBRARY + ["testing", "stores/*", "transports/*"]),
]

# What the tests of a store may include on top; the tests of other modules may include any module.
TESTS_OF_A_STORE_MAY_ALSO_INCLUDE = ["dispatch", "testing", "stores/conformance"]
STORES_TESTED_WITH_OTHERS = {"stores/open", "stores/http"}

# Made of GoogleTest, and never installed.
TEST_ONLY_MODULES = {"stores/conformance"}

# A codec is made of the library that its user has: only its own public headers include that.
LIBRARY_OF_CODEC = {
    "codecs/boost_json": "boost/json.hpp",
    "codecs/nlohmann_json": "nlohmann/json.hpp",
}

# <header>: names of namespace std for which a header has to include it.
STANDARD_NAMES = {
    "array": "array",
    "atomic": "atomic",
    "chrono": "chrono",
    "condition_variable": "condition_variable condition_variable_any",
    "cstddef": "byte ptrdiff_t size_t",
    "cstdint": "int16_t int32_t int64_t int8_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception",
    "filesystem": "filesystem",
    "functional": "function less greater hash reference_wrapper",
    "initializer_list": "initializer_list",
    "iosfwd": "ostream",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex once_flag scoped_lock unique_lock",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": "mt19937 mt19937_64 random_device",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "span",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "stop_token": "stop_callback stop_source stop_token",
    "string": "string to_string",
    "string_view": "string_view",
    "thread": "jthread this_thread thread",
    "tuple": "tie tuple",
    "type_traits": "invoke_result_t is_invocable_v is_same_v remove_cvref_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange forward move pair swap",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HEADER_OF_NAME = {
    name: header for header, names in STANDARD_NAMES.items() for name in names.split()
}
# Headers that stand for another one, because they contain it.
CONTAINED = {
    "exception": {"stdexcept"},
    "iosfwd": {"ostream", "iostream"},
    "string_view": {"string"},
}
STANDARD_USE = re.compile(r"\bstd::(\w+)")
COMMENT = re.compile(r"//[^\n]*")

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
            is_of_codec = included == LIBRARY_OF_CODEC.get(module)
            if not is_of_codec and (bracket == '"' or not STANDARD_HEADER.fullmatch(included)):
                yield (
                    f"{where}: a public header includes only the standard library and oncebox/, "
                    f"not {included}"
                )


def check_standard_names(path, text):
    """Yields what a header uses of the standard library without including it."""
    included = {name for bracket, name in INCLUDE.findall(text) if bracket == "<"}
    missing = {}
    code = COMMENT.sub(lambda comment: " " * len(comment.group()), text)
    for use in STANDARD_USE.finditer(code):
        header = HEADER_OF_NAME.get(use.group(1))
        if header and not included & ({header} | CONTAINED.get(header, set())):
            missing.setdefault(header, use)
    for header, use in missing.items():
        where = f"{path}:{project_files.line_of(text, use.start())}"
        yield f"{where}: uses {use.group()} and does not include <{header}>"


def check(root):
    """Yields every include that breaks the direction of dependencies."""
    owners, internal = find_modules(root)
    for file in project_files.find_files(root, ".hpp", ".cpp"):
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        yield from check_file(path, text, owners, internal)
        if re.search(r"/(include|internal)/oncebox/.*hpp$", path):
            yield from check_standard_names(path, text)


if __name__ == "__main__":
    project_files.main(check, "includes: dependencies point down only")
