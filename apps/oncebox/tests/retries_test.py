"""Retries end at the same attempt, whoever works: R-31.

One SQLite store, worked on in every way that there is, with the rules of the store and with rules
of the worker's own.
"""

import json
import subprocess
import unittest
import urllib.request

from program import PATIENCE_S, ProgramTest

SHORTLY = ["--retry-delay", "1ms", "--max-retry-delay", "1ms"]


class Retries(ProgramTest):
    def setUp(self):
        super().setUp()
        self.failing = self.script("fail", "exit 1")
        with open(self.folder / "log", "ab") as log:
            server = self.start(
                *("serve --port 0 --json --store".split()), self.url,
                stdout=subprocess.PIPE, stderr=log,
            )
        self.server = json.loads(server.stdout.readline())["url"]

    # Each way fails the only message at least once; answers how often, and whether it is dead.

    def post(self, path, body):
        request = urllib.request.Request(
            self.server + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def by_http(self, max_attempts=None):
        claimed = self.post("/v1/messages/claim", {"waitSeconds": 30, "limit": 1})
        (message,) = claimed["messages"]
        item = {name: message[name] for name in ("source", "messageId", "delivery")}
        item |= {"verdict": "Abandon", "error": "no", "delaySeconds": 0.001}
        if max_attempts:
            item["maxAttempts"] = max_attempts
        settled = self.post("/v1/messages/settle", {"owner": claimed["owner"], "items": [item]})
        (result,) = settled["results"]
        self.assertEqual(result["policy"], "Worker" if max_attempts else "Topic")
        return 1, "death" in result

    def by_tool(self, url, max_attempts=None):
        own = ["--max-attempts", max_attempts, *SHORTLY] if max_attempts else []
        figures = json.loads(
            self.out("work", "--drain", "--json", *own, "--", self.failing,
                     variables={"ONCEBOX_URL": url})
        )
        return figures["retried"] + figures["dead"], figures["dead"] == 1

    def ways(self):
        return {
            "http": self.by_http,
            "tool, directly": lambda **own: self.by_tool(self.url, **own),
            "tool, over http": lambda **own: self.by_tool(self.server, **own),
        }

    def failures_until_dead(self, message_id, fail):
        failures, is_dead = 0, False
        while not is_dead:
            more, is_dead = fail()
            failures += more
            self.assertLess(failures, 20, "it does not end")
        self.assertEqual(self.record(message_id)["status"], "Dead")
        return failures

    def test_by_the_rule_of_the_topic(self):
        self.out("topics", "set", "order.*", "--max-attempts", "3", "--delay", "1ms")
        for name, way in self.ways().items():
            with self.subTest(name):
                self.send(name)
                self.assertEqual(self.failures_until_dead(name, way), 3)
                self.assertEqual(self.record(name)["attempt"], 3)

    def test_by_a_workers_own_limit(self):
        self.out("topics", "set", "*", "--max-attempts", "9", "--delay", "1ms")
        for name, way in self.ways().items():
            with self.subTest(name):
                self.send(name)
                self.assertEqual(
                    self.failures_until_dead(name, lambda way=way: way(max_attempts=2)), 2
                )

    def test_two_workers_of_different_settings_on_one_store(self):
        self.out("topics", "set", "*", "--max-attempts", "9", "--delay", "1ms")
        for name, hasty in self.ways().items():
            with self.subTest(name):
                self.send(name)
                for _ in range(3):
                    self.assertEqual(self.by_http(), (1, False), "the rule of the topic is patient")
                self.assertEqual(hasty(max_attempts=2), (1, True), "the other worker is not")
                self.assertEqual(self.record(name)["attempt"], 4)


if __name__ == "__main__":
    unittest.main()
