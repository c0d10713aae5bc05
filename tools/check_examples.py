#!/usr/bin/env python3
"""Checks that every public class is shown by an example that the tests build and run.

A class of a public header (`include/oncebox/`, without `driver/` for authors of stores and
`detail/`) has to be named in the code of an example that includes the header, directly or through
others. Of a template its aliases in the same header count, too: `Topic` shows `Name`. Where a
header has no class, one of its types or functions has to be named: options, outcomes and other
plain values go with those that take or answer them. What stands in a comment or a text does not
count.

An example is run by examples/CMakeLists.txt, has a file with its output, and stands in the list of
examples/README.md.

NOT_SHOWN has what needs no example, each with its reason.
"""

import re

import project_files

# A header, or a folder with a slash at its end, and perhaps the one class of it that is meant.
NOT_SHOWN = {
    "stores/conformance/": "the suite for authors of stores; their tests are its examples",
    "stores/sql/": "what SQL stores are made of, for their authors",
    "wire/": "what server, HTTP store and tool are made of",
    "core/include/oncebox/clock.hpp ClockMoves": "a clock that is moved by hand has it inside",
    "core/include/oncebox/log.hpp NullLogger": "what is used where no logger is given",
    "core/include/oncebox/surroundings_of_queues.hpp":
        "its fields are given by name, to objects that examples show",
    "core/include/oncebox/limits.hpp": "numbers, and what checks them for authors of options",
    "fleet/include/oncebox/fleet/store_set.hpp StoreSource": "a StoreSet is one",
    "stores/postgresql/include/oncebox/postgresql/query_discovery.hpp":
        "oncebox/discover_by_query.hpp, which an example shows, calls it for its URLs",
    "stores/sqlite/include/oncebox/sqlite/query_discovery.hpp": "the same",
}
FOR_AUTHORS = ("/driver/", "/detail/")

COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
# Whatever a namespace declares stands at the beginning of a line. A type has a body, or is a
# template that others specialise.
TYPE = re.compile(
    r"^(class|struct|enum class) (?:\[\[[^\]]*\]\] )?(\w+)(?: final)?\s*(?::[^;{]*)?\{"
    r"|^template <[^;{]*>\n(class|struct) (\w+);",
    re.MULTILINE,
)
DETAIL = re.compile(r"^namespace detail \{$.*?^\}  // namespace detail$", re.DOTALL | re.MULTILINE)
ALIAS = re.compile(r"^using (\w+) = (\w*)", re.MULTILINE)
FUNCTION = re.compile(
    r"^(?!(?:class|struct|enum|using|namespace|template|return|friend)\b)"
    r"(?:\[\[\w+\]\] )?[\w:][\w:<>&*,\[\] ]*[ &*](\w+)\(",
    re.MULTILINE,
)
ADDED = re.compile(r"oncebox_add_example\(\s*(\w+)")
LISTED = re.compile(r"^\| \[(\w+)\]\(\1\.cpp\) \|", re.MULTILINE)


def code_of(text):
    """The text without comments and literals, and without what is in `detail`."""
    return COMMENT_OR_TEXT.sub(" ", DETAIL.sub(" ", text))


def included_by(text):
    """What a file includes; of its whole text, since a name in quotes looks like a literal."""
    return set(INCLUDE.findall(text))


def public_headers(root):
    """Maps how a public header is included to its path."""
    headers = {}
    for file in project_files.find_files(root, ".hpp"):
        path = file.relative_to(root).as_posix()
        _, found, included = path.partition("/include/oncebox/")
        if found:
            headers["oncebox/" + included] = path
    return headers


class Example:
    """A program: the words of its code, and all that it includes."""

    def __init__(self, file, root, headers):
        self.words = set()
        self.included = set()
        self._add(file, root, headers)

    def _add(self, file, root, headers):
        text = file.read_text(encoding="utf-8")
        self.words.update(re.findall(r"\w+", code_of(text)))
        for name in included_by(text):
            beside = file.parent / name
            if beside.is_file():
                self._add(beside, root, headers)
            elif name not in self.included:
                self._include(name, root, headers)

    def _include(self, name, root, headers):
        self.included.add(name)
        path = headers.get(name)
        if path is None:
            return
        for further in included_by((root / path).read_text(encoding="utf-8")):
            if further not in self.included:
                self._include(further, root, headers)


def names_to_show(code):
    """Sets of names of a header, with the name to complain of: one of each set has to be shown."""
    types = [(first or second, name or last) for first, name, second, last in TYPE.findall(code)]
    aliases = ALIAS.findall(code)
    classes = [name for kind, name in types if kind == "class"]
    for name in classes:
        yield name, {name} | {alias for alias, of in aliases if of == name}
    if not classes:
        names = [name for _, name in types] + [alias for alias, _ in aliases]
        names += FUNCTION.findall(code)
        if names:
            yield names[0], set(names)


def is_not_shown(path, name, used):
    """Whether NOT_SHOWN says so; notes which of its entries did."""
    for entry in NOT_SHOWN:
        place, _, only = entry.partition(" ")
        is_there = path.startswith(place) if place.endswith("/") else path == place
        if is_there and only in ("", name):
            used.add(entry)
            return True
    return False


def check_list(root, added):
    """Yields every example that no test runs, or that the list of examples does not have."""
    folder = root / "examples"
    listed = set(LISTED.findall((folder / "README.md").read_text(encoding="utf-8")))
    for file in project_files.find_files(folder, ".cpp"):
        path = file.relative_to(root).as_posix()
        if file.stem not in added:
            yield f"{path}: examples/CMakeLists.txt does not run it"
        if not file.with_suffix(".out").exists():
            yield f"{path}: there is no {file.stem}.out with what it prints"
        if file.stem not in listed:
            yield f"{path}: examples/README.md does not list it"


def check(root):
    """Yields every public class that no example shows, and every example that no test runs."""
    cmake = root / "examples" / "CMakeLists.txt"
    added = set(ADDED.findall(cmake.read_text(encoding="utf-8")))
    yield from check_list(root, added)
    headers = public_headers(root)
    sources = project_files.find_files(root / "examples", ".cpp")
    examples = [Example(file, root, headers) for file in sources if file.stem in added]
    used = set()
    for included, path in sorted(headers.items(), key=lambda header: header[1]):
        if any(folder in included for folder in FOR_AUTHORS):
            continue
        words = set().union(*(each.words for each in examples if included in each.included))
        code = code_of((root / path).read_text(encoding="utf-8"))
        for name, names in names_to_show(code):
            if not names & words and not is_not_shown(path, name, used):
                yield f"{path}: no example shows {name}"
    for entry in NOT_SHOWN:
        if entry not in used and (root / entry.partition(" ")[0]).exists():
            yield f"tools/check_examples.py: NOT_SHOWN need not have {entry}"


if __name__ == "__main__":
    project_files.main(check, "examples: every public class is shown by one")
