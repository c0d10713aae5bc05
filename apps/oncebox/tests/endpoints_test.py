"""A server that publishes its outbox, receivers that nobody of ours wrote, and the tool."""

import base64
import collections
import hashlib
import hmac
import http.client
import http.server
import json
import os
import random
import signal
import threading
import time
import unittest

from program import PATIENCE_S
from serve_test import Served

KEY = b"a key of both of them"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
MESSAGES = 200
KILLS = int(os.environ.get("ONCEBOX_CRASH_KILLS", "6"))


class Receiver:
    """Checks signatures by itself, and keeps a ledger of what it has accepted."""

    def __init__(self):
        self.accepted = collections.Counter()
        self.bodies = {}
        self.bad = 0
        self.status = 200
        self.lock = threading.Lock()
        self.asked = threading.Event()  # once it has a request in hand
        self.gate = threading.Event()  # it answers while this is set
        self.gate.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.asked.set()
                receiver.gate.wait()
                self.send_response(receiver.take(self.headers, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *arguments: None  # a server that is killed hangs up
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def take(self, headers, body):
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        with self.lock:
            if f"v1,{digest}" not in headers["webhook-signature"].split():
                self.bad += 1
                return 401
            if self.status == 200:
                self.accepted[headers["webhook-id"]] += 1
                self.bodies[headers["webhook-id"]] = body
            return self.status


class Published(Served):
    def setUp(self):
        super().setUp()
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)

    def configure(self, more=""):
        self.write(
            "oncebox.toml",
            '[[stores]]\nname = "main"\nurl = "sqlite:queue.db"\n'
            f'[[publish]]\nname = "crm"\nurl = "{self.receiver.url}"\ntopics = ["order.*"]\n'
            f'secrets = ["env:CRM_SECRET"]\nallow_private = true\n{more}',
        )

    def publish(self, more=""):
        self.configure(more)
        return self.serve(variables={"CRM_SECRET": SECRET})

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.log()[-4000:]}")
            time.sleep(0.01)

    def endpoints(self):
        listed = self.json("endpoints", "list", "--url", self.url)["endpoints"]
        return {endpoint["name"]: endpoint for endpoint in listed}

    def send_out(self, message_id, topic="order.paid", payload=1):
        message = {"source": "shop", "messageId": message_id, "topic": topic, "payload": payload}
        return self.ask("POST", "/v1/outbox/messages", json.dumps(message))[0]


class Endpoints(Published):
    def test_the_configured_endpoint_gets_what_it_wants_signed(self):
        self.publish()
        self.assertEqual(self.send_out("1", payload={"amount": 42}), 200)
        self.assertEqual(self.send_out("2", topic="mail.sent"), 200)
        self.wait_for(lambda: self.receiver.accepted["shop:1"], "nothing was delivered")
        self.assertEqual(self.receiver.bodies["shop:1"], b'{"amount": 42}')
        self.assertEqual(self.receiver.bad, 0)
        shown = self.endpoints()["crm"]
        self.assertNotIn("secrets", shown)
        self.assertNotIn(SECRET, self.log())

    def test_endpoints_come_and_go_by_the_tool(self):
        self.configure()
        self.serve(
            *("--set", "publishing.enabled=true", "--set", "publishing.private_over_http=true"),
            variables={"CRM_SECRET": SECRET},
        )
        url = ("--url", self.url)
        arguments = ("--secret", f"literal:{SECRET}", "--allow-private", "--topic", "mail.*")
        self.run_program("endpoints", "add", "mail", self.receiver.url, *arguments, *url)
        again = self.err("endpoints", "add", "mail", "x://y", *url, code=1)
        self.assertIn("is there already", again)
        self.assertEqual(self.out("endpoints", "test", "mail", *url), "accepted\n")
        self.send_out("1", topic="mail.sent")
        self.wait_for(lambda: self.receiver.accepted["shop:1"], "nothing was delivered")
        self.assertIn("paused", self.out("endpoints", "pause", "mail", *url))
        self.send_out("2", topic="mail.sent")
        self.assertIn("works", self.out("endpoints", "resume", "mail", *url))
        self.wait_for(lambda: self.receiver.accepted["shop:2"], "it was not resumed")
        self.run_program("endpoints", "edit", "mail", "--max-concurrency", "1", *url)
        self.assertEqual(self.endpoints()["mail"]["topics"], ["mail.*"])
        self.assertEqual(self.out("endpoints", "remove", "mail", *url), "removed\n")
        self.assertNotIn("mail", self.endpoints())
        over_http = self.err(
            *("endpoints", "add", "spy", "oncebox+https://x.example/v1"),
            *("--secret", "file:/etc/passwd", *url),
            code=2,
        )
        self.assertIn("literal:", over_http)
        moved = self.err("endpoints", "edit", "crm", "--target", "https://x.example", *url, code=2)
        self.assertIn("must not go to another address", moved)
        unknown = self.err("endpoints", "add", "bus", "amqp://x.example", *url, code=2)
        self.assertIn("not with amqp://", unknown)

    def test_one_that_is_gone_is_disabled_and_caught_up(self):
        self.publish()
        self.receiver.status = 410
        self.send_out("1")
        self.wait_for(lambda: "disabledAt" in self.endpoints()["crm"], "it is not disabled")
        self.assertIn("an endpoint was disabled", self.log())
        self.send_out("2")
        asked = ("get", "2", "--queue", "outbox", "--source", "shop", "--url", self.url)
        self.wait_for(lambda: self.json(*asked)["status"] == "Done", "it is not fanned out")
        self.receiver.status = 200
        self.run_program("endpoints", "resume", "crm", "--url", self.url)
        self.assertEqual(sum(self.receiver.accepted.values()), 0)
        resend = ("endpoints", "resend", "crm", "--since", "1h", "--url", self.url)
        planned = self.json(*resend, "--dry-run")
        self.assertEqual(planned, {"count": 2, "underWay": 0, "notWanted": 0, "dryRun": True})
        self.assertEqual(self.json(*resend, "--reason", "it is back")["count"], 2)
        self.wait_for(lambda: len(self.receiver.accepted) == 2, "not all came")
        self.assertEqual(set(self.receiver.accepted), {"shop:1", "shop:2"})
        trail = self.json("audit", "list", "--action", "resend", "--url", self.url)["entries"]
        self.assertEqual([entry["reason"] for entry in trail], ["it is back"])
        one = ("--source", "shop", "--id", "1", "--url", "sqlite:queue.db")
        planned = self.out("endpoints", "resend", "crm", "--dry-run", *one)
        self.assertIn("1 would be sent again", planned)


class Stopped(Published):
    def wait_while_waiting(self):
        """Claims, and returns when the server has begun to stop."""
        self.ask("POST", "/v1/messages/claim", '{"waitSeconds":60}')

    def test_deliveries_under_way_end_and_no_other_begins(self):
        process = self.publish()
        self.receiver.gate.clear()
        for number in range(20):
            self.assertEqual(self.send_out(str(number)), 200)
        self.receiver.asked.wait()
        claim = threading.Thread(target=self.wait_while_waiting)
        claim.start()
        waiting = b'oncebox_waiting_claims{store="main"} 1'
        self.wait_for(lambda: waiting in self.ask("GET", "/metrics")[1], "no claim waits")
        process.terminate()
        claim.join()
        self.receiver.gate.set()
        self.end_of(process)
        first = len(self.receiver.accepted)
        self.assertIn(first, range(1, 5), "as many as may run at once")
        self.publish()
        self.wait_for(lambda: len(self.receiver.accepted) == 20, "not all came")
        self.assertEqual(sum(self.receiver.accepted.values()), 20, "none came twice")


class Killed(Published):
    def takes(self, number):
        try:
            return self.send_out(str(number)) == 200
        except (OSError, http.client.HTTPException):
            return False

    def test_nothing_is_lost_and_repetitions_have_the_same_id(self):
        process = self.publish(more='backoff = "10ms"\nmax_delay = "100ms"\n')
        stop = threading.Event()
        sent = set()

        def send_all():
            number = 0
            while not stop.is_set() or number < MESSAGES:
                # Without an answer it may have been taken: it is sent until there is one.
                self.wait_for(lambda number=number: self.takes(number), "nothing is taken")
                sent.add(f"shop:{number}")
                number += 1

        sender = threading.Thread(target=send_all)
        sender.start()
        chance = random.Random()
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.05, 0.5))
                process.send_signal(signal.SIGKILL)
                process.wait()
                process = self.serve(variables={"CRM_SECRET": SECRET})
        finally:
            stop.set()
            sender.join()
        self.wait_for(lambda: sent <= set(self.receiver.accepted), "something is lost")
        self.assertEqual(set(self.receiver.accepted), sent)
        self.assertEqual(self.receiver.bad, 0)
        twice = sum(1 for count in self.receiver.accepted.values() if count > 1)
        print(f"{len(sent)} messages, {KILLS} kills, {twice} came more than once")


if __name__ == "__main__":
    unittest.main()
