"""The tool directly on a PostgreSQL store."""

import json
import os
import pathlib
import unittest
import uuid

from program import ProgramTest
from retries_table import RetriesTable


class PostgresqlTest(ProgramTest):
    def setUp(self):
        super().setUp()
        server = pathlib.Path(os.environ["ONCEBOX_TEST_POSTGRESQL"]).read_text().strip()
        separator = "&" if "?" in server else "?"
        self.url = f"{server}{separator}schema=cli_{uuid.uuid4().hex[:12]}"


class OnPostgresql(PostgresqlTest):
    def test_a_message_goes_its_way_once_the_tables_are_there(self):
        self.assertIn("migrate the database first", self.err("list", code=1))
        self.assertIn("was brought to", self.out("migrate"))
        self.assertFalse(self.json("migrate")["changed"])
        self.assertEqual(self.send("1"), "accepted 1\n")
        self.assertEqual(self.send("1"), "duplicate 1\n")
        fail = self.script("fail", "echo no luck >&2; exit 65")
        work = ("work", "--drain", "--json", "--")
        self.assertEqual(json.loads(self.out(*work, fail))["dead"], 1)
        self.assertIn("no luck", self.out("dead", "show", "1"))
        self.write("fixed", "better")
        self.out("dead", "edit", "cli", "1", "--payload", "fixed")
        self.assertEqual(len(self.json("dead", "history", "cli", "1")["contents"]), 1)
        self.assertEqual(json.loads(self.out(*work, fail))["dead"], 1)
        self.assertEqual(self.out("dead", "revive", "--all"), "revived 1\n")
        actions = [entry["action"] for entry in self.json("audit", "list")["entries"]]
        self.assertEqual(actions, ["Revive", "ReviveEdited"])
        self.assertEqual(json.loads(self.out(*work, "true"))["done"], 1)
        self.assertEqual(self.json("stats")["total"]["done"], 1)

    def test_a_command_gets_no_password_of_its_worker(self):
        self.out("migrate")
        self.send("1")
        script = self.script("look", 'echo "${PGPASSWORD-none} $PGAPPNAME" > seen')
        variables = {"PGPASSWORD": "secret", "PGAPPNAME": "kept"}
        self.out("work", "--drain", "--", script, variables=variables)
        self.assertEqual((self.folder / "seen").read_text(), "none kept\n")


class RetriesOnPostgresql(RetriesTable, PostgresqlTest):
    def setUp(self):
        super().setUp()
        self.out("migrate")


if __name__ == "__main__":
    unittest.main()
