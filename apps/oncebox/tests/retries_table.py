"""When attempts end, by tests/support/retries.txt: R-31. Each row is tried by every way to work,
then each other one.

The ways are a client of the server, and the tool on the store itself, over HTTP and on a file of
stores. What works inside a process is in dispatch/tests/retries_test.cpp.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import urllib.request

from program import PATIENCE_S, read_until

# What failed comes again when the test says so, however long a turn takes.
LATER = ("--delay", "1h")

TABLE = pathlib.Path(__file__).parents[3] / "tests" / "support" / "retries.txt"

# `first` and `second` are the attempts that two workers allow, who take turns; None: they leave it
# to the rule. `end` is the attempt that is the last one. `change`: what the rule becomes after a
# turn.
Row = collections.namedtuple("Row", "what rule first second end change in_outbox")


def read_rule(cell):
    """The options of the rule, and what it becomes after a turn: it is not waited for age."""
    if cell == "-":
        return (), {}
    attempts, *age = cell.split(" old at ")
    rule = ("--max-attempts", attempts)
    if not age:
        return rule, {}
    return (*rule, "--give-up-after", "1h"), {int(age[0]) - 1: ("--give-up-after", "1ms")}


def read_table():
    for line in TABLE.read_text().splitlines():
        if line.startswith("#"):
            continue
        what, rule, first, second, end, outbox = (cell.strip() for cell in line.split("|"))
        rule, change = read_rule(rule)
        own = [None if cell == "-" else int(cell) for cell in (first, second)]
        yield Row(what, rule, *own, int(end), change, outbox == "outbox")


ROWS = tuple(read_table())
ROWS_OF_OUTBOX = tuple(row for row in ROWS if row.in_outbox)

Case = collections.namedtuple("Case", "row first second topic")


class RetriesTable:
    """For a `ProgramTest` whose store has its tables. One message for each case; each turn, every
    way fails at once what it has to."""

    def test_attempts_end_whoever_works(self):
        self.expect_ends(ROWS, "inbox", (self.by_http, self.by_tool, self.over_http, self.by_file))

    def test_attempts_end_whoever_publishes(self):
        self.expect_ends(ROWS_OF_OUTBOX, "outbox", (self.by_http, self.by_tool, self.over_http))

    def expect_ends(self, rows, queue, ways):
        self.queue = queue
        self.begin()
        cases = [
            Case(row, first, second, f"row{number}.{first.__name__}.{second.__name__}")
            for number, row in enumerate(rows)
            for first in ways
            for second in ways
        ]
        for number, row in enumerate(rows):
            self.tool("topics", "set", f"row{number}.*", *LATER, *row.rule)
        messages = [{"messageId": c.topic, "topic": c.topic, "payload": "x"} for c in cases]
        self.tool("send", "--ndjson", "-", data="\n".join(map(json.dumps, messages)))
        ends = {}
        for turn in range(1, max(row.end for row in rows) + 1):
            alive = [case for case in cases if case.topic not in ends]
            self.take_turn(turn, alive)
            records = {line["topic"]: line for line in self.lines("list", "--all")}
            for case in alive:
                self.assertEqual(records[case.topic]["attempt"], turn, (case.row.what, case.topic))
                if records[case.topic]["status"] == "Dead":
                    ends[case.topic] = turn
            for number, row in enumerate(rows):
                if turn in row.change:
                    self.tool("topics", "set", f"row{number}.*", *row.change[turn])
            self.tool("messages", "run-now", "--all")
        described = {case.topic: case.row.what for case in cases}
        self.assertEqual(
            {(described[topic], topic): end for topic, end in ends.items()},
            {(case.row.what, case.topic): case.row.end for case in cases},
        )

    def take_turn(self, turn, cases):
        """Fails each of the messages once."""
        shares = collections.defaultdict(list)
        for case in cases:
            first = turn % 2 == 1
            way = case.first if first else case.second
            shares[way, case.row.first if first else case.row.second].append(case)
        finishes = [way(own, share) for (way, own), share in shares.items()]
        for finish in finishes:
            finish()

    # Each way begins to fail its share of the messages, and answers how to wait for its end.

    def by_http(self, own, cases):
        routes = "/v1/messages" if self.queue == "inbox" else "/v1/outbox/messages"
        topics = {case.topic: case for case in cases}
        claim = {"waitSeconds": 30, "limit": len(cases), "topics": {"only": list(topics)}}
        claimed = self.post(f"{routes}/claim", claim)
        verdict = {"verdict": "Abandon", "error": "no"} | ({"maxAttempts": own} if own else {})
        items = [
            {name: message[name] for name in ("source", "messageId", "delivery")} | verdict
            for message in claimed["messages"]
        ]
        self.assertEqual({m["topic"] for m in claimed["messages"]}, set(topics))
        settled = self.post(f"{routes}/settle", {"owner": claimed["owner"], "items": items})
        for message, result in zip(claimed["messages"], settled["results"]):
            by_rule = "Topic" if topics[message["topic"]].row.rule else "Queue"
            self.assertEqual(result["policy"], "Worker" if own else by_rule, message["topic"])
        return lambda: None

    def by_tool(self, own, cases):
        return self.work(own, cases, "--url", self.url, "--queue", self.queue)

    def over_http(self, own, cases):
        return self.work(own, cases, "--url", self.server, "--queue", self.queue)

    def by_file(self, own, cases):
        return self.work(own, cases, "--stores", "stores.toml")

    def work(self, own, cases, *options):
        self.workers += 1
        fifo = self.folder / f"failed{self.workers}"
        os.mkfifo(fifo)
        failed = os.open(fifo, os.O_RDWR)
        topics = [part for case in cases for part in ("-t", case.topic)]
        limit = ("--max-attempts", own) if own else ()
        process = self.start_logged(
            "work", "--json", *options, *limit, *topics, "--", self.fail_script, fifo
        )

        def finish():
            read = b""
            while len(read) < len(cases):
                read += read_until(failed, b".")
            os.close(failed)
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 0)
            done = json.loads(out)
            self.assertEqual(done["retried"] + done["dead"], len(cases), done)

        return finish

    def begin(self):
        self.workers = 0
        self.fail_script = self.script("fail", 'printf . > "$1"; exit 1')
        self.write("stores.toml", f'[[stores]]\nname = "main"\nurl = "{self.url}"\n')
        server = self.start_logged(*("serve --port 0 --json --store".split()), self.url)
        self.server = json.loads(server.stdout.readline())["url"]

    def start_logged(self, *arguments):
        with open(self.folder / "log", "ab") as log:
            return self.start(*arguments, stdout=subprocess.PIPE, stderr=log)

    def tool(self, *arguments, **options):
        return self.out(*arguments, "--queue", self.queue, **options)

    def lines(self, *arguments):
        return [json.loads(line) for line in self.tool(*arguments, "--json").splitlines()]

    def post(self, path, body):
        request = urllib.request.Request(
            self.server + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
