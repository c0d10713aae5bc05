"""A server whose stores come and go: a watched file, a control database, and the tool."""

import json
import os
import signal
import socket
import sqlite3
import threading
import time
import unittest

from program import PATIENCE_S
from serve_test import Served

MESSAGE = json.dumps({"source": "shop", "messageId": "1", "topic": "x", "payload": 1})


def listing(**stores):
    """A list of stores, as the file has it."""
    text = "".join(
        f'[[stores]]\nname = "{name}"\nurl = "{url}"\n' for name, url in stores.items()
    )
    return text or "stores = []\n"


class ManyStores(Served):
    def replace(self, text, name="stores.toml"):
        """As those do who want nobody to read half a file."""
        self.write(name + ".new", text)
        os.replace(self.folder / (name + ".new"), self.folder / name)

    def status(self, store, method="POST", path="/messages", body=MESSAGE):
        return self.ask(method, f"/v1/stores/{store}{path}", body if method == "POST" else None)[0]

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.log()}")

    def wait_for_status(self, store, status):
        self.wait_for(lambda: self.status(store) == status, f"{store} does not answer {status}")

    def stores(self):
        return {store["name"]: store for store in self.json("stores", "--url", self.url)["stores"]}


class WatchedFile(ManyStores):
    def setUp(self):
        super().setUp()
        self.replace(listing(acme="memory:", zenith="sqlite:zenith.db"))

    def follow(self, *arguments):
        # Only a change of the file can be why something changes.
        return self.serve(
            "--set", "discovery.file=stores.toml", "--set", "discovery.interval=24h", *arguments
        )

    def test_a_store_that_is_added_is_served_and_the_others_stay(self):
        self.follow()
        self.assertEqual(self.status("acme"), 200)
        self.assertEqual(self.status("nova"), 404)
        self.replace(listing(acme="memory:", zenith="sqlite:zenith.db", nova="memory:"))
        self.wait_for_status("nova", 200)
        self.assertEqual(self.status("acme", "GET", "/messages/shop/1"), 200)

    def test_a_claim_that_waits_is_answered_when_its_store_goes(self):
        process = self.follow()
        answers = []
        waiting = threading.Thread(
            target=lambda: answers.append(
                self.ask("POST", "/v1/stores/acme/messages/claim", '{"waitSeconds": 60}')
            )
        )
        waiting.start()
        self.wait_for(
            lambda: b'oncebox_waiting_claims{store="acme"} 1' in self.ask("GET", "/metrics")[1],
            "nobody waits",
        )
        self.replace(listing(zenith="sqlite:zenith.db"))
        waiting.join(PATIENCE_S)
        self.assertEqual(answers[0][0], 200)
        self.assertEqual(json.loads(answers[0][1])["messages"], [])
        self.assertEqual(self.status("acme"), 404)
        self.wait_for_log(process, "store removed store=acme")

    def test_a_store_that_moved_is_served_from_its_new_place(self):
        self.follow()
        self.assertEqual(self.status("zenith"), 200)
        self.replace(listing(acme="memory:", zenith="sqlite:elsewhere.db"))
        self.wait_for(
            lambda: self.status("zenith", "GET", "/messages/shop/1") == 404, "it did not move"
        )
        self.assertEqual(self.status("zenith"), 200)
        self.assertTrue((self.folder / "elsewhere.db").exists())

    def test_a_store_that_is_down_at_first_comes_up_later(self):
        self.replace(listing(acme="memory:", late="sqlite:late/late.db"))
        process = self.follow("--set", "discovery.default_store=acme")
        self.assertEqual(self.status("acme"), 200)
        self.assertEqual(self.status("late"), 503)
        self.assertEqual(self.wait_until_ready(), {"status": "degraded", "storesDown": 1})
        self.assertEqual(self.stores()["late"]["state"], "down")
        self.wait_for_log(process, "store=late")
        (self.folder / "late").mkdir()
        self.wait_for_status("late", 200)
        self.assertEqual(self.stores()["late"]["state"], "open")

    def test_a_file_that_breaks_changes_nothing_until_it_is_mended(self):
        process = self.follow()
        self.replace('[[stores]]\nname = "acme"\nurl = s3cret\n')
        self.wait_for_log(process, "discovery failed")
        self.assertEqual(self.status("acme"), 200)
        told = self.json("stores", "--url", self.url)["discovery"]
        self.assertEqual(told["health"], "degraded")
        self.assertIn("stores.toml: line 3", told["detail"])
        text = self.err("stores", "refresh", "--url", self.url, code=69)
        self.assertIn("line 3", text)
        self.replace(listing(nova="memory:"))
        self.wait_for_status("nova", 200)
        self.assertEqual(
            self.json("stores", "--url", self.url)["discovery"], {"health": "healthy"}
        )
        self.assertNotIn("s3cret", self.log() + text)

    def test_json_lists_stores_too(self):
        stores = {"stores": [{"name": "acme", "url": "memory:"}]}
        self.write("stores.json", json.dumps(stores))
        self.serve("--set", "discovery.file=stores.json")
        self.assertEqual(self.status("acme"), 200)

    def test_those_of_the_configuration_stay_beside_them(self):
        self.follow("--store", "main=memory:")
        self.assertEqual(self.ask("POST", "/v1/messages", MESSAGE)[0], 200)
        self.assertEqual(self.status("main", "GET", "/messages/shop/1"), 200)
        self.assertEqual(self.status("acme"), 200)
        self.replace(listing())
        self.wait_for_status("acme", 404)
        self.assertEqual(self.status("main"), 200)

    def test_without_a_default_every_path_needs_a_name(self):
        self.follow()
        self.assertEqual(self.ask("POST", "/v1/messages", MESSAGE)[0], 404)
        self.wait_until_ready()
        self.assertFalse((self.folder / "oncebox.db").exists(), "nobody asked for it")


class ControlDatabase(ManyStores):
    def execute(self, sql):
        database = sqlite3.connect(self.folder / "control.db")
        database.executescript(sql)
        database.close()

    def test_sighup_and_the_tool_look_for_stores(self):
        self.execute(
            "CREATE TABLE tenant (id, url); INSERT INTO tenant VALUES ('acme', 'memory:')"
        )
        process = self.serve(
            *("--set", "discovery.database=sqlite:control.db"),
            *("--set", "discovery.query=SELECT id, url FROM tenant"),
        )
        self.assertEqual(self.status("acme"), 200)
        self.execute("INSERT INTO tenant VALUES ('nova', 'memory:')")
        process.send_signal(signal.SIGHUP)
        self.wait_for_status("nova", 200)
        self.execute("DELETE FROM tenant WHERE id = 'acme'")
        self.assertEqual(
            self.json("stores", "refresh", "--url", self.url),
            {"added": [], "removed": ["acme"], "reopened": [], "down": []},
        )
        self.assertEqual(self.status("acme"), 404)

    def test_it_ends_though_a_store_hangs_that_it_is_looking_for(self):
        self.execute("CREATE TABLE tenant (id, url); INSERT INTO tenant VALUES ('acme', 'memory:')")
        process = self.serve(
            *("--set", "discovery.database=sqlite:control.db"),
            *("--set", "discovery.query=SELECT id, url FROM tenant"),
            *("--set", "discovery.interval=24h"),
        )
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(PATIENCE_S)
            port = silent.getsockname()[1]
            patience = "connect_timeout_s=600&call_timeout_ms=600000"
            url = f"postgresql://127.0.0.1:{port}/x?{patience}"
            self.execute(f"INSERT INTO tenant VALUES ('hangs', '{url}')")
            process.send_signal(signal.SIGHUP)
            connection, _ = silent.accept()
            with connection:
                self.assertEqual(self.status("acme"), 200)
                self.assertEqual(self.status("hangs"), 503)
                process.send_signal(signal.SIGTERM)
                self.wait_for_log(process, "draining")
        self.end_of(process)

    def test_unknown_stores_are_not_refused_for_good_while_discovery_fails(self):
        self.serve(
            *("--store", "main=memory:"),
            *("--set", "discovery.database=sqlite:control.db"),
            *("--set", "discovery.query=SELECT id, url FROM tenant"),
        )
        self.assertEqual(self.status("main"), 200)
        self.assertEqual(self.status("acme"), 503)
        self.execute("CREATE TABLE tenant (id, url); INSERT INTO tenant VALUES ('acme', 'memory:')")
        self.wait_for_status("acme", 200)
        self.assertEqual(self.status("nova"), 404)

    def test_a_database_that_is_not_there_yet_is_asked_again(self):
        self.serve(
            *("--set", "discovery.database=sqlite:control.db"),
            *("--set", "discovery.query=SELECT id, url FROM tenant"),
        )
        self.assertEqual(self.ask("GET", "/readyz")[0], 503)
        self.execute(
            "CREATE TABLE tenant (id, url); INSERT INTO tenant VALUES ('acme', 'memory:')"
        )
        self.wait_for_status("acme", 200)


class Tool(ManyStores):
    def test_it_lists_the_stores(self):
        self.serve("--store", "main=memory:", "--store", "late=sqlite:late/late.db")
        stores = self.stores()
        self.assertEqual(
            stores["main"], {"name": "main", "default": True, "state": "open", "health": "healthy"}
        )
        self.assertEqual(stores["late"]["health"], "unavailable")
        table = self.out("stores", "--url", self.url)
        self.assertRegex(table, r"(?m)^main \(default\) +open +healthy")
        health = self.out("health", "--url", self.url, code=1)
        self.assertIn("the server is degraded", health)
        self.assertIn("store late is unavailable", health)
        self.assertRegex(table, r"(?m)^late +down +unavailable +SQLite cannot open")
        self.assertEqual(
            self.out("stores", "refresh", "--url", self.url), "down: late\n"
        )

    def test_every_command_about_a_server_can_name_a_store(self):
        self.serve("--store", "main=memory:", "--store", "other=memory:")
        at = ("--url", self.url, "--store", "other")
        self.out("send", "--id", "m", "--topic", "t", "--data", "1", *at)
        self.assertEqual(self.json("get", "m", *at)["messageId"], "m")
        self.assertEqual(len(self.json("list", *at)["messages"]), 1)
        self.assertEqual(self.json("stats", *at)["total"]["ready"], 1)
        self.assertEqual(self.json("stats", "--url", self.url)["total"]["ready"], 0)
        self.out("work", "--drain", *at, "--", "true")
        self.assertEqual(self.json("get", "m", *at)["status"], "Done")
        self.assertEqual(self.json("dead", "list", *at)["messages"], [])
        self.out("keys", "mark", "k", *at)
        self.assertEqual(self.json("keys", "get", "k", *at)["status"], "Processed")
        self.out("keys", "get", "k", "--url", self.url, code=1)

    def test_a_store_without_a_server_has_no_others(self):
        self.err("stats", "--url", "sqlite:x.db", "--store", "other", code=2)
        text = self.err("stores", "--url", "sqlite:x.db", code=2)
        self.assertIn("http://", text)


class Validate(ManyStores):
    def complaints(self, *settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        return self.err("validate", *arguments, code=78)

    def test_what_does_not_go_together_is_told(self):
        database = "discovery.database=postgresql://me:s3cret@db/x"
        self.assertIn("belong together", self.complaints(database))
        self.assertIn("belong together", self.complaints("discovery.query=SELECT 1, 2"))
        self.assertIn(
            "not both",
            self.complaints("discovery.file=a.toml", database, "discovery.query=SELECT 1, 2"),
        )
        self.assertIn("discovery.interval", self.complaints("discovery.interval=10ms"))
        self.assertIn("discovery.default_store", self.complaints("discovery.default_store=no"))
        unknown = "discovery.database=mysql://me:s3cret@db/x"
        text = self.complaints(unknown, "discovery.query=SELECT 1, 2")
        self.assertIn("mysql", text)
        self.assertNotIn("s3cret", text)

    def test_with_connect_the_discovered_stores_are_opened(self):
        self.write("stores.toml", listing(acme="memory:", late="sqlite:late/late.db"))
        settings = ("--set", "discovery.file=stores.toml", "--set", "discovery.default_store=acme")
        self.assertEqual(
            self.json("validate", *settings),
            {"valid": True, "file": "", "stores": [], "discovery": True, "webhooks": 0},
        )
        self.assertIn("store late", self.err("validate", "--connect", *settings, code=1))
        self.write("stores.toml", listing(acme="memory:"))
        self.out("validate", "--connect", *settings)


if __name__ == "__main__":
    unittest.main()
