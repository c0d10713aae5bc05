"""`oncebox serve` as a process: where it listens, its signals, and the tool against it."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from program import PATIENCE_S, PROGRAM, ProgramTest, is_sanitized, read_to_the_end, read_until


class Served(ProgramTest):
    """A test with a server."""

    def serve(self, *arguments, variables=None):
        """Starts a server on a free port; sets self.port and self.url."""
        with open(self.folder / "log", "ab") as log:
            process = self.start(
                *("serve", "--port", "0", "--json", *arguments),
                variables=variables,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        line = process.stdout.readline()
        self.assertTrue(line, self.log())
        self.port = json.loads(line)["port"]
        self.url = json.loads(line)["url"]
        return process

    def log(self):
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def wait_for_log(self, process, text):
        """Returns when the log has this text."""
        for _ in range(PATIENCE_S * 100):
            if text in self.log():
                return
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(0.01)
        self.fail(f"{text!r} is not in the log: {self.log()}")

    def ask(self, method, path, body=None, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def wait_until_ready(self):
        """Answers what it says then. It waits less than a second for its store."""
        give_up_at = time.monotonic() + PATIENCE_S
        while (answer := self.ask("GET", "/readyz"))[0] != 200:
            self.assertLess(time.monotonic(), give_up_at, answer)
        return json.loads(answer[1])

    def end_of(self, process, code=0):
        self.assertEqual(process.wait(PATIENCE_S), code, self.log())


class StalledLog(Served):
    """Standard error is a pipe, and nobody reads it."""

    def setUp(self):
        super().setUp()
        self.reader, writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        self.process = self.start(
            *("serve", "--port", "0", "--json", "--store", "memory:"),
            stdout=subprocess.PIPE,
            stderr=writer,
        )
        os.close(writer)
        self.port = json.loads(self.process.stdout.readline())["port"]
        # Their lines are far more than the pipe and the server keep.
        path = "/" + "x" * 7000
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        for _ in range(1000):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, 404)
        connection.close()

    def test_the_server_goes_on_and_the_reader_is_told_what_it_missed(self):
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        metrics = self.ask("GET", "/metrics")[1].decode()
        dropped = re.search(r"^oncebox_log_lines_dropped_total (\d+)", metrics, re.M)[1]
        self.assertGreater(int(dropped), 100)
        read_until(self.reader, b"warning log lines dropped count=")
        self.ask("GET", "/healthz")
        self.process.terminate()
        self.assertIn(b"info stopped", read_to_the_end(self.reader))
        self.end_of(self.process)

    def test_it_ends_when_it_is_told_to(self):
        began = time.monotonic()
        self.process.terminate()
        self.end_of(self.process)
        self.assertLess(time.monotonic() - began, 25, "shorter than server.drain_timeout")


class LargeBodies(Served):
    def resident_mib(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.M)[1]) / 1024

    def send_large(self, size):
        """A body of this size that is whole, and no JSON in the end."""
        self.assertEqual(self.ask("POST", "/v1/messages", '{"payload":"' + "x" * size)[0], 400)

    @unittest.skipIf(is_sanitized(PROGRAM), "a sanitizer keeps what is freed")
    def test_their_buffers_leave_no_holes_in_the_heaps_of_the_threads(self):
        limits = ("--set", "server.io_threads=16", "--set", "limits.memory=2GiB")
        process = self.serve("--store", "memory:", *limits)
        self.send_large(100)
        before = self.resident_mib(process)
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            for size in (7_000_000, 5_000_000, 3_000_000, 1_500_000, 600_000) * 2:
                list(clients.map(self.send_large, [size] * 16))
        # At once: what the trimmer gives back comes later.
        self.assertLess(self.resident_mib(process), before + 32)


class Serve(Served):
    def test_it_tells_where_it_listens_and_makes_its_file(self):
        process = self.start(
            *("serve --port 0 --port-file port --log-level warning".split()),
            stdout=subprocess.PIPE,
        )
        self.assertRegex(
            process.stdout.readline().decode(), r"^oncebox listens on http://127\.0\.0\.1:\d+\n$"
        )
        self.port = int((self.folder / "port").read_text())
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.wait_until_ready()
        self.assertTrue((self.folder / "oncebox.db").exists())
        process.send_signal(signal.SIGINT)
        self.end_of(process)

    def test_only_the_owner_has_access_to_its_files_and_others_are_warned_of(self):
        self.addCleanup(os.umask, os.umask(0o022))
        process = self.serve("--store", "sqlite:queue.db")
        self.wait_until_ready()
        for name in ("queue.db", "queue.db-wal", "queue.db-shm"):
            self.assertEqual((self.folder / name).stat().st_mode & 0o777, 0o600, name)
        process.terminate()
        self.end_of(process)
        self.assertNotIn("everybody on this machine", self.log())
        (self.folder / "queue.db").chmod(0o644)
        process = self.serve("--store", "sqlite:queue.db")
        self.wait_for_log(process, "everybody on this machine has access to the file of a store")
        process.terminate()
        self.end_of(process)

    def test_the_trail_names_the_token_of_whoever_used_the_tool(self):
        self.write(
            "tokens",
            "ops operate ops-secret-ops-secret\n"
            "all produce,consume,read all-secret-all-secret\n",
        )
        process = self.serve("--set", "auth.token_file=tokens")
        everybody = {"ONCEBOX_TOKEN": "all-secret-all-secret"}
        self.send("1", variables=everybody)
        self.out("work", "--drain", "--", "sh", "-c", "exit 65", variables=everybody)
        ops = {"ONCEBOX_TOKEN": "ops-secret-ops-secret"}
        self.write("fixed", "better")
        edit = ("dead", "edit", "cli", "1", "--payload", "fixed", "--reason", "a typo")
        self.assertIn("forbidden", self.err(*edit, code=2, variables=everybody))
        self.out(*edit, variables=ops)
        past = self.json("dead", "history", "cli", "1", variables=ops)["contents"]
        self.assertEqual(past[0]["replacedBy"], "ops")
        entries = self.json("audit", "list", variables=ops)["entries"]
        self.assertEqual(
            [(e["actor"], e["action"], e["reason"]) for e in entries],
            [("ops", "ReviveEdited", "a typo")],
        )
        process.send_signal(signal.SIGTERM)
        self.end_of(process)

    def test_what_was_accepted_is_there_after_a_restart(self):
        process = self.serve()
        message = json.dumps({"source": "shop", "messageId": "1", "topic": "x", "payload": 1})
        self.assertEqual(self.ask("POST", "/v1/messages", message)[0], 200)
        process.terminate()
        self.end_of(process)
        self.serve()
        self.assertEqual(self.ask("GET", "/v1/messages/shop/1")[0], 200)

    def test_several_stores_are_served_by_name(self):
        self.write(
            "oncebox.toml",
            '[[stores]]\nname = "one"\nurl = "memory:"\n'
            '[[stores]]\nname = "two"\nurl = "memory:"\n',
        )
        self.serve()
        message = json.dumps({"source": "shop", "messageId": "1", "topic": "x", "payload": ""})
        self.assertEqual(self.ask("POST", "/v1/stores/two/messages", message)[0], 200)
        self.assertEqual(self.ask("GET", "/v1/messages/shop/1")[0], 404)
        self.assertEqual(self.ask("GET", "/v1/stores/two/messages/shop/1")[0], 200)

    def test_a_port_that_is_taken_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            text = self.err("serve", "--store", "memory:", "--port", port, code=69)
        self.assertIn(str(port), text)

    def test_it_does_not_listen_to_the_world_without_tokens(self):
        text = self.err("serve", "--store", "memory:", "--host", "0.0.0.0", "--port", "0", code=78)
        self.assertIn("allow_anonymous_remote", text)

    def test_a_store_that_cannot_be_opened_is_named_without_its_password(self):
        url = "postgresql://nobody:s3cret@127.0.0.1:1/x"
        text = self.err("serve", "--store", f"pg={url}", "--port", "0", code=69)
        self.assertIn("store pg", text)
        self.assertNotIn("s3cret", text)

    def test_logs_are_json_when_asked_for(self):
        process = self.serve("--log-format", "json", "--store", "memory:")
        self.ask("GET", "/healthz")
        process.terminate()
        self.end_of(process)
        lines = [json.loads(line) for line in self.log().splitlines()]
        self.assertIn("listening", [line["message"] for line in lines])
        self.assertIn("stopped", [line["message"] for line in lines])


class Signals(Served):
    def waiting_claim(self):
        """A request that the server holds open; answers in a thread, into the list."""
        answers = []
        claim = json.dumps({"waitSeconds": 60})

        def wait():
            try:
                answers.append(self.ask("POST", "/v1/messages/claim", claim)[0])
            except OSError as error:
                answers.append(type(error).__name__)

        thread = threading.Thread(target=wait)
        thread.start()
        self.addCleanup(thread.join)
        return thread, answers

    def test_sigterm_answers_what_waits_and_ends_well(self):
        process = self.serve("--store", "memory:")
        thread, answers = self.waiting_claim()
        while b'oncebox_waiting_claims{store="default"} 1' not in self.ask("GET", "/metrics")[1]:
            self.assertTrue(thread.is_alive(), answers)
        process.terminate()
        self.end_of(process)
        thread.join()
        self.assertEqual(answers, [200])
        self.assertIn("stopped", self.log())

    def half_a_request(self):
        """A request of which only a part has been sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        self.addCleanup(connection.close)
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
        )
        self.assertIn(b"100", connection.recv(100))
        return connection

    def test_what_is_not_answered_in_time_is_cut_off(self):
        process = self.serve("--store", "memory:", "--set", "server.drain_timeout=100ms")
        self.half_a_request()
        process.terminate()
        self.end_of(process, code=1)
        self.assertIn("unanswered=1", self.log())

    def test_a_second_signal_ends_it_at_once(self):
        process = self.serve("--store", "memory:", "--set", "server.drain_timeout=1h")
        self.half_a_request()
        process.terminate()
        self.wait_for_log(process, "draining")
        process.send_signal(signal.SIGINT)
        self.end_of(process, code=1)

    def test_sighup_reads_tokens_and_the_log_level_again(self):
        self.write("tokens", "one read firstsecretfirstsecret\n")
        self.write("oncebox.toml", '[auth]\ntoken_file = "tokens"\n[log]\nlevel = "error"\n')
        process = self.serve("--store", "memory:")
        self.assertEqual(self.ask("GET", "/v1/stats", token="firstsecretfirstsecret")[0], 200)
        self.assertEqual(self.ask("GET", "/v1/stats", token="othersecretothersecret")[0], 401)
        self.assertEqual(self.log(), "")
        self.write("tokens", "two read othersecretothersecret\n")
        self.write("oncebox.toml", '[auth]\ntoken_file = "tokens"\n[log]\nlevel = "info"\n')
        process.send_signal(signal.SIGHUP)
        self.wait_for_log(process, "reloaded what=tokens")
        self.assertEqual(self.ask("GET", "/v1/stats", token="othersecretothersecret")[0], 200)
        self.assertEqual(self.ask("GET", "/v1/stats", token="firstsecretfirstsecret")[0], 401)
        self.write("oncebox.toml", "[log]\nlevle = 1\n")
        process.send_signal(signal.SIGHUP)
        self.wait_for_log(process, "levle")
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assertNotIn("secret", self.log())


class ToolAgainstServer(Served):
    """The same commands through a server."""

    def test_a_message_goes_its_way(self):
        self.serve("--store", "memory:")
        self.assertEqual(self.send("1", data='{"a": 1}'), "accepted 1\n")
        self.assertEqual(self.send("1", data='{"a": 1}'), "duplicate 1\n")
        self.assertEqual(self.out("get", "--payload", "1"), '{"a": 1}')
        lines = "".join(
            f'{{"messageId": "n{n}", "topic": "bulk", "payload": {n}}}\n' for n in range(2500)
        )
        self.assertEqual(
            self.out("send", "--ndjson", "-", data=lines), "sent 2,500 messages: 2,500 accepted\n"
        )
        self.assertEqual(len(self.json_lines("list", "--all")), 2501)
        self.assertEqual(self.json("stats")["total"]["ready"], 2501)
        fail = self.script("fail", "echo no luck >&2; exit 65")
        work = ("work", "--drain", "--json", "-t", "order.*", "--", fail)
        self.assertEqual(json.loads(self.out(*work))["dead"], 1)
        self.assertIn("no luck", self.out("dead", "show", "1"))
        self.assertEqual(self.out("dead", "revive", "1"), "revived 1 of 1\n")
        done = ("work", "--drain", "--json", "-t", "order.*", "--", "true")
        self.assertEqual(json.loads(self.out(*done))["done"], 1)
        self.assertEqual(self.record("1")["status"], "Done")
        self.assertEqual(self.out("keys", "mark", "a/b:c é"), "processed\n")
        self.assertEqual(self.json("keys", "get", "a/b:c é")["status"], "Processed")
        self.assertEqual([p["messages"] for p in self.json_lines("bench", "-n", "100")], [100] * 3)

    def test_tokens_come_from_a_file_or_the_environment(self):
        secret = "toolsecrettoolsecret"
        self.write("tokens", f"tool produce,read,operate {secret}\n")
        self.write("token", f"{secret}\n")
        self.serve("--store", "memory:", "--set", "auth.token_file=tokens")
        self.assertNotEqual(self.run_failing("list").returncode, 0)
        self.assertEqual(self.json("list", "--token-file", "token"), {"messages": []})
        self.assertEqual(self.json("list", variables={"ONCEBOX_TOKEN": secret}), {"messages": []})
        wrong = self.run_failing("list", variables={"ONCEBOX_TOKEN": "wrongwrongwrong"})
        self.assertNotIn(b"wrongwrong", wrong.stderr)

    def run_failing(self, *arguments, variables=None):
        process = self.start(
            *arguments, variables=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def test_a_server_that_is_not_there_is_unavailable(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.err("list", code=69)
        self.err("send", "-t", "x", "-d", "y", "--retry-for", "0", code=69)


if __name__ == "__main__":
    os.umask(0o077)
    unittest.main()
