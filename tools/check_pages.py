#!/usr/bin/env python3
"""Checks that README.md and docs/ say what is true: their code and output, and where links lead.

Every ```cpp block stands, but for its indentation, in a file under examples/, all of which are
built and run. Every ```text block is something that an example prints. So whoever copies from a
page copies what works.
"""

import re
import textwrap

import project_files

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
# Which files of examples/ a block of a language is taken from.
TAKEN_FROM = {"cpp": (".cpp", ".hpp"), "text": (".out",)}


def pages(root):
    """The pages for users, and those beside them at the root."""
    for file in project_files.find_files(root, ".md"):
        path = file.relative_to(root)
        if len(path.parts) == 1 or path.parts[0] in ("docs", "examples"):
            yield file, path.as_posix()


def has_examples(path):
    return path == "README.md" or path.startswith("docs/")


def occurs(block, text):
    """Whether the block stands in the text as whole lines, however far it is indented there."""
    block = textwrap.dedent(block)
    for indent in ("", "  ", "    ", "      "):
        lines = textwrap.indent(block, indent, lambda line: line.strip() != "")
        if f"\n{lines}" in f"\n{text}":
            return True
    return False


def without_code(text):
    """The text with its blocks emptied; what is left keeps its line numbers."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def check_links(file, path, text):
    text = without_code(text)
    for link in LINK.finditer(text):
        if "://" in link[1] or link[1].startswith("mailto:"):
            continue
        if not (file.parent / link[1]).exists():
            where = f"{path}:{project_files.line_of(text, link.start())}"
            yield f"{where}: there is no {link[1]}"


def check_blocks(path, text, examples):
    for block in BLOCK.finditer(text):
        sources = TAKEN_FROM.get(block[1])
        if sources is None:
            continue
        candidates = (text for name, text in examples.items() if name.endswith(sources))
        if not any(occurs(block[2], candidate) for candidate in candidates):
            where = f"{path}:{project_files.line_of(text, block.start())}"
            yield f"{where}: this block stands in no {' or '.join(sources)} file of examples/"


def check(root):
    """Yields every block that no example has, and every link that leads nowhere."""
    files = project_files.find_files(root / "examples", ".cpp", ".hpp", ".out")
    examples = {file.name: file.read_text(encoding="utf-8") for file in files}
    for file, path in pages(root):
        text = file.read_text(encoding="utf-8")
        yield from check_links(file, path, text)
        if has_examples(path):
            yield from check_blocks(path, text, examples)


if __name__ == "__main__":
    project_files.main(check, "pages: every block is from an example, every link leads somewhere")
