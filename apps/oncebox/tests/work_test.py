"""`oncebox work`, with real child processes on a SQLite store."""

import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import unittest
import urllib.request

from program import PATIENCE_S, ProgramTest, read_until

STORE = '[[stores]]\nname = "{0}"\nurl = "sqlite:{0}.db"\n'
# What failed does not come again meanwhile, however long the rest takes.
LATER = "--retry-delay 1h --max-retry-delay 1h".split()


def is_alive(pid):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class Work(ProgramTest):
    def setUp(self):
        super().setUp()
        self.pipes = []
        self.addCleanup(lambda: [os.close(pipe) for pipe in self.pipes])

    def drain(self, command, *options, **more):
        return json.loads(
            self.out("work", "--drain", "--json", *LATER, *options, "--", command, **more)
        )

    def fifo(self, name):
        """A named pipe that a child writes to, to tell how far it is."""
        path = self.folder / name
        os.mkfifo(path)
        self.pipes.append(os.open(path, os.O_RDWR))
        return self.pipes[-1]

    def work(self, command, *options, **more):
        return self.start(
            "work", *options, "--", command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
        )

    def test_the_command_gets_the_payload_and_the_fields(self):
        self.run_program(
            *("send --id 7 --source shop --topic order.paid --partition-key p1".split()),
            *("-H contentType=text/plain -H x-trace.id=ü -d".split()),
            "the payload\nin two lines",
        )
        script = self.script("dump", 'cat > payload; env | grep "^ONCEBOX_" | sort > fields')
        stale = {"ONCEBOX_HEADER_STALE": "1", "ONCEBOX_TOPIC": "stale"}
        self.assertEqual(
            self.drain(script, variables=stale),
            {"done": 1, "retried": 0, "dead": 0, "released": 0},
        )
        self.assertEqual((self.folder / "payload").read_text(), "the payload\nin two lines")
        fields = dict(
            line.split("=", 1) for line in (self.folder / "fields").read_text().splitlines()
        )
        fields.pop("ONCEBOX_DELIVERY")
        fields.pop("ONCEBOX_URL")
        self.assertEqual(
            fields,
            {
                "ONCEBOX_SOURCE": "shop",
                "ONCEBOX_MESSAGE_ID": "7",
                "ONCEBOX_TOPIC": "order.paid",
                "ONCEBOX_ATTEMPT": "1",
                "ONCEBOX_PARTITION_KEY": "p1",
                "ONCEBOX_HEADER_CONTENTTYPE": "text/plain",
                "ONCEBOX_HEADER_X_TRACE_ID": "ü",
            },
        )
        self.assertEqual(self.record("7")["status"], "Done")

    def test_the_exit_code_decides(self):
        for code in (0, 1, 65, 75):
            self.send(f"code{code}", data=str(code))
        script = self.script(
            "exit", 'read -r code; echo ignored >&2; echo "said $code" >&2; echo >&2; exit "$code"'
        )
        self.assertEqual(
            self.drain(script), {"done": 1, "retried": 2, "dead": 1, "released": 0}
        )
        records = {code: self.record(f"code{code}") for code in (0, 1, 65, 75)}
        self.assertEqual(records[0]["status"], "Done")
        self.assertEqual((records[65]["status"], records[65]["lastError"]), ("Dead", "said 65"))
        self.assertEqual(records[1]["lastError"], "exit code 1: said 1")
        self.assertEqual(records[75]["lastError"], "said 75")
        self.assertEqual((records[75]["status"], records[75]["attempt"]), ("Processing", 1))

    def test_a_message_tells_who_tried_it_and_what_went_wrong(self):
        self.send("7")
        script = self.script("fail", "echo no luck >&2; exit 65")
        self.assertEqual(self.drain(script, "--name", "shop-3")["dead"], 1)
        for command in ("get 7", "dead show 7"):
            text = self.out(*command.split())
            self.assertRegex(text, r"ATTEMPT +BEGUN +ENDED +OUTCOME +WORKER +ERROR\n")
            self.assertRegex(text, r" 1  .+  failed +shop-3  oncebox::PermanentFailure: no luck\n")
            attempt = json.loads(self.out(*command.split(), "--json"))["attempts"][0]
            self.assertEqual((attempt["worker"], attempt["outcome"]), ("shop-3", "Failed"))
        workers = self.out("workers")
        self.assertRegex(workers, r"WORKER +LEASES +SINCE +LAST SEEN\nshop-3 +0 +\S+ \S+ +\d+s ago")
        self.assertEqual(json.loads(self.out("workers", "--json"))["workers"][0]["name"], "shop-3")

    def test_what_a_claim_buries_is_counted(self):
        self.run_program(*("send --id late --topic t -d x --expires 2020-01-01T00:00:00Z".split()))
        self.assertEqual(
            self.drain("/bin/true"), {"done": 0, "retried": 0, "dead": 1, "released": 0}
        )

    def test_metrics_are_for_prometheus(self):
        done = self.fifo("done")
        script = self.script("handle", "cat > /dev/null; echo . > done")
        process = self.work(script, *("--metrics-port 0 --log-level info".split()))
        line = read_until(process.stderr.fileno(), b"path=/metrics").decode()
        port = re.search(r"metrics are served host=127.0.0.1 port=(\d+)", line).group(1)
        self.send("1")
        read_until(done, b".")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        self.assertIn("oncebox_handler_latency_seconds_count", text)
        self.assertIn('oncebox_dispatcher_prefetches_total{dispatcher="work",outcome="miss"}', text)
        self.assertIn('store="inbox",topic="order.created"', text)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_port_for_metrics_that_is_taken_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            error = self.err(
                "work", "--metrics-port", str(port), "--", "/bin/true", code=69
            )
        self.assertIn(str(port), error)

    def test_a_message_that_fails_too_often_is_dead(self):
        self.send("1")
        script = self.script("fail", "exit 3")
        process = self.work(
            script, *("--max-attempts 3 --retry-delay 1ms --max-retry-delay 1ms".split())
        )
        err = process.stderr
        lines = []
        while not lines or "for the last time" not in lines[-1]:
            lines.append(err.readline().decode())
        self.assertEqual(sum("handler failed store" in line for line in lines), 3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        record = self.record("1")
        self.assertEqual((record["status"], record["lastError"]), ("Dead", "exit code 3"))

    def test_what_fails_in_an_outbox_is_not_given_up_by_attempts(self):
        self.out("send", "--queue", "outbox", "--id", "1", "--topic", "t", "--data", "{}")
        script = self.script("fail_12_times", 'echo . >> tries; [ "$(wc -l < tries)" -gt 12 ]')
        process = self.work(
            script, *("--queue outbox --retry-delay 1ms --max-retry-delay 1ms".split())
        )
        for _ in range(12):
            self.assertIn("handler failed store=outbox", process.stderr.readline().decode())
        while self.record("1", "--queue", "outbox")["status"] == "Processing":
            pass
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertEqual(self.record("1", "--queue", "outbox")["status"], "Done")

    def test_long_and_broken_error_lines_are_kept_as_they_can_be(self):
        self.send("1")
        script = self.script("shout", r"printf 'x%.0s' $(seq 5000) >&2; printf '\377' >&2; exit 65")
        self.drain(script)
        error = self.record("1")["lastError"]
        self.assertEqual(error, "x" * 2048)

    def test_a_store_that_cannot_be_reached_ends_it_with_code_69(self):
        script = self.script("run", "touch ran")
        for url in ("http://127.0.0.1:1", "postgresql://nobody@127.0.0.1:1/x"):
            for options in ([], ["--drain"]):
                with self.subTest(url=url, options=options):
                    self.err("work", *options, "--url", url, "--", script, code=69)
        self.assertFalse((self.folder / "ran").exists())

    def test_a_command_that_does_not_read_its_payload_is_fine(self):
        self.write("large", "x" * (4 << 20))
        self.out("send", "-t", "x", "--file", "large")
        self.assertEqual(self.drain("true")["done"], 1)

    def test_a_large_payload_comes_through_while_the_command_answers(self):
        self.write("large", "x" * (4 << 20))
        self.out("send", "-t", "x", "--file", "large")
        script = self.script("echo", "tee /dev/stderr | wc -c > size")
        self.assertEqual(self.drain(script)["done"], 1)
        self.assertEqual((self.folder / "size").read_text().strip(), str(4 << 20))

    def test_only_the_topics_that_were_named_are_taken(self):
        self.send("1", topic="mail.new")
        self.send("2", topic="order.new")
        self.send("3", topic="sms")
        self.assertEqual(self.drain("true", "-t", "mail.*", "-t", "sms")["done"], 2)
        self.assertEqual(self.record("2")["status"], "Processing")

    def test_options_of_the_command_are_not_ours(self):
        self.send("1")
        self.out("work", "--drain", "sh", "-c", "echo done > result", "--json")
        self.assertEqual((self.folder / "result").read_text(), "done\n")

    def test_a_killed_child_is_a_failure(self):
        self.send("1")
        self.assertEqual(self.drain(self.script("die", "kill -9 $$"))["retried"], 1)
        self.assertEqual(self.record("1")["lastError"], "killed by signal 9")

    def timeouts_of(self, script, *options):
        """Lets the script run into longer and longer timeouts; yields each, and what was kept.

        On a busy machine a short one may be over before the script has begun.
        """
        for timeout in ("100ms", "1s", "10s", "50s"):
            self.send(timeout, topic=f"t{timeout}")
            process = self.start(
                *("work", "--drain", *LATER, "-t", f"t{timeout}", "--timeout", timeout),
                *(*options, "--", script),
                stderr=subprocess.DEVNULL,
            )
            self.assertEqual(process.wait(PATIENCE_S), 0)
            yield timeout, self.record(timeout)["lastError"]
        self.fail("the script does not begin")

    def test_a_child_that_takes_too_long_is_ended_with_all_it_started(self):
        pids = self.fifo("pids")
        script = self.script("slow", "trap '' TERM; sleep 1000 & echo $$ $! > pids; wait; wait")
        for timeout, error in self.timeouts_of(script, "--grace", "100ms"):
            self.assertIn(f"timed out after {timeout}", error)
            if select.select([pids], [], [], 0)[0]:
                break
        started = read_until(pids, b"\n").split()
        self.assertEqual([is_alive(int(pid)) for pid in started], [False, False])

    def test_a_child_that_writes_without_end_is_ended_all_the_same(self):
        script = self.script("flood", "while :; do echo flood; done >&2")
        for timeout, error in self.timeouts_of(script):
            if error != f"timed out after {timeout}":
                break
        self.assertEqual(error, f"timed out after {timeout}: flood")

    def test_children_run_at_the_same_time_as_often_as_allowed(self):
        ready = self.fifo("ready")
        for number in range(6):
            self.send(str(number))
        # Each waits until three of them are there; with fewer at a time nothing would end.
        script = self.script(
            "together",
            "echo ready > ready; mkdir -p here; : > here/$$;"
            ' while [ "$(ls here | wc -l)" -lt 3 ]; do sleep 0.01; done',
        )
        process = self.work(script, "--concurrency", "3", "--drain", "--json")
        self.assertEqual(json.loads(process.communicate(timeout=PATIENCE_S)[0])["done"], 6)
        self.assertTrue(os.read(ready, 100))

    def test_on_sigterm_children_finish_and_the_rest_is_released(self):
        started = self.fifo("started")
        go_on = self.fifo("go_on")
        for number in range(5):
            self.send(str(number))
        script = self.script("wait", "echo started > started; read -r line < go_on")
        process = self.work(script, "--concurrency", "1", "--json")
        read_until(started, b"\n")
        process.terminate()
        # It still waits for its child, which the signal did not reach.
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.3)
        os.write(go_on, b"go\n")
        out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(json.loads(out)["done"], 1)
        stats = self.json("stats")["total"]
        self.assertEqual((stats["done"], stats["ready"], stats["leased"]), (1, 4, 0))
        for message in self.json_lines("list", "--all", "--status", "processing"):
            self.assertEqual(message["attempt"], 0)

    def stubborn_child(self, *options):
        """A worker whose child ends neither by itself nor on SIGTERM, and the child's pid."""
        pids = self.fifo("pids")
        self.send("1")
        script = self.script(
            "stubborn", "trap 'echo no >&2' TERM; echo $$ > pids; while :; do sleep 0.05; done"
        )
        process = self.work(script, "--grace", "100ms", *options)
        return process, int(read_until(pids, b"\n"))

    def test_children_that_do_not_finish_are_killed_and_no_try_is_counted(self):
        process, child = self.stubborn_child("--finish-within", "100ms")
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertFalse(is_alive(child))
        record = self.record("1")
        self.assertEqual((record["status"], record["attempt"]), ("Processing", 0))
        self.assertNotIn("owner", record)

    def test_a_second_signal_ends_it_at_once(self):
        process, child = self.stubborn_child("--finish-within", "1h")
        process.terminate()
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertFalse(is_alive(child))

    def test_children_inherit_no_files_and_no_signal_settings(self):
        self.send("1")
        with open(self.folder / "open", "w", encoding="utf-8") as extra:
            process = self.start(
                *("work", "--drain", "ls", "/proc/self/fd"),
                stdout=subprocess.PIPE,
                pass_fds=[extra.fileno()],
            )
            out, _ = process.communicate(timeout=PATIENCE_S)
        # The last one is the folder that ls reads.
        self.assertEqual(out.split(), [b"0", b"1", b"2", b"3"])
        self.send("2")
        look = self.script(
            "look",
            "grep -E '^Sig(Blk|Ign)' /proc/self/status > signals;"
            " cut -d' ' -f1,5 /proc/$$/stat > group",
        )
        self.drain(look)
        for line in (self.folder / "signals").read_text().splitlines():
            # The two above belong to the C library.
            self.assertEqual(int(line.split()[1], 16) & 0x7FFFFFFF, 0, line)
        pid, group = (self.folder / "group").read_text().split()
        self.assertEqual(group, pid)

    def test_no_zombies_are_left_while_it_works(self):
        go_on = self.fifo("go_on")
        started = self.fifo("started")
        for number in range(20):
            self.send(str(number), topic="quick")
        self.send("last", topic="slow")
        script = self.script(
            "either",
            'if [ "$ONCEBOX_TOPIC" = slow ]; then echo s > started; read -r line < go_on; fi',
        )
        process = self.work(script, "--concurrency", "2")
        read_until(started, b"s")
        while self.json("stats")["total"]["done"] < 20:
            pass
        children = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
        states = [is_alive(int(pid)) for path in children for pid in path.read_text().split()]
        self.assertEqual(states, [True])
        os.write(go_on, b"go\n")
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_many_stores_are_worked_on_while_they_come_and_go(self):
        handled = self.fifo("handled")
        stores = self.write("stores.toml", STORE.format("acme"))
        self.send("1", variables={"ONCEBOX_URL": "sqlite:acme.db"})
        script = self.script("tell", 'echo "$ONCEBOX_STORE $ONCEBOX_MESSAGE_ID" > handled')
        process = self.work(script, "--stores", "stores.toml", "--strategy", "round-robin")
        self.assertEqual(read_until(handled, b"\n"), b"acme 1\n")
        self.send("1", variables={"ONCEBOX_URL": "sqlite:nova.db"})
        self.write("stores.new", STORE.format("acme") + STORE.format("nova"))
        os.replace(self.folder / "stores.new", stores)
        self.assertEqual(read_until(handled, b"\n"), b"nova 1\n")
        self.send("2", variables={"ONCEBOX_URL": "sqlite:acme.db"})
        self.assertEqual(read_until(handled, b"\n"), b"acme 2\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertIn("done 3", process.stderr.read().decode())

    def test_many_stores_exclude_what_is_for_one(self):
        self.write("stores.toml", STORE.format("acme"))
        for options in (["--drain"], ["--queue", "outbox"], ["--store", "acme"]):
            with self.subTest(options=options):
                self.err("work", "--stores", "stores.toml", *options, "--", "true", code=2)
        self.err("work", "--stores", "nowhere.toml", "--", "true", code=69)
        self.err("work", "--strategy", "drain-first", "--", "true", code=2)


if __name__ == "__main__":
    unittest.main()
