"""Retries end at the same attempt, whoever works on a SQLite store; on PostgreSQL they do in
postgresql_test.py."""

import unittest

from program import ProgramTest
from retries_table import RetriesTable


class Retries(RetriesTable, ProgramTest):
    pass


if __name__ == "__main__":
    unittest.main()
