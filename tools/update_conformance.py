#!/usr/bin/env python3
"""Writes into docs/conformance.md which tests name which requirement.

Run it after adding, renaming or removing tests. It rewrites the lists of `Suite.Test` alone: what
stands after "; open:" and the names of ctest tests stay. A row that said "open: …" and now has
tests becomes "tests; open: …"; whether the rest is still open is for a person to decide.
"""

import pathlib
import re
import sys

import check_conformance


def tests_by_requirement(root):
    tests, _ = check_conformance.read_tests(root)
    by_requirement = {}
    for name, (_, ids) in tests.items():
        for requirement in ids:
            by_requirement.setdefault(requirement, []).append(name)
    return {requirement: sorted(names) for requirement, names in by_requirement.items()}


def updated_proof(proof, names):
    if proof.startswith("type:"):
        return proof
    ctests = re.findall(r"`(ctest:[^`]+)`", proof)
    still_open = re.search(r"open:\s*\S.*$", proof)
    shown = ", ".join(f"`{name}`" for name in names + ctests)
    return "; ".join(part for part in (shown, still_open and still_open[0]) if part)


def update(root):
    page = root / check_conformance.PAGE
    by_requirement = tests_by_requirement(root)
    lines = page.read_text(encoding="utf-8").split("\n")
    for number, requirement, cells in check_conformance.read_rows("\n".join(lines)):
        proof = updated_proof(cells[1], by_requirement.get(requirement, []))
        lines[number - 1] = f"| {requirement} | {cells[0]} | {proof} |"
    page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    update(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
