"""A throw-away project for the tests of the checks."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))


class SampleTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def assert_finds(self, check, expected):
        problems = list(check(self.root))
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(expected, problems[0])

    def assert_passes(self, check):
        self.assertEqual(list(check(self.root)), [])
