"""`oncebox work`, with real child processes on a SQLite store."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import select
import shlex
import signal
import socket
import subprocess
import unittest
import urllib.request

from program import PATIENCE_S, PROGRAM, PROJECT, ProgramTest, read_until

STORE = '[[stores]]\nname = "{0}"\nurl = "sqlite:{0}.db"\n'
# What failed does not come again meanwhile, however long the rest takes.
LATER = "--retry-delay 1h --max-retry-delay 1h".split()
# Ids that a sender can choose, to leave a folder or to be taken for an option.
HOSTILE_IDS = ("../../escaped", "/tmp/escaped", "..", ".", "-rf", "a b\n*", "$(id)", "ü" * 255)


def file_name(*key):
    """What ONCEBOX_MESSAGE_FILE is for a store (of many), source and id."""
    return hashlib.sha256("\0".join(key).encode()).hexdigest()[:40]


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def is_alive(pid):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def read_to_the_end_of(pipe):
    """What comes until nobody has the other end open; fails when that does not happen."""
    read = b""
    while True:
        if not select.select([pipe], [], [], PATIENCE_S)[0]:
            raise AssertionError(f"the other end stays open; {read!r} came")
        part = os.read(pipe.fileno(), 65536)
        if not part:
            return read
        read += part


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
        headers = json.loads(fields.pop("ONCEBOX_HEADERS"))
        self.assertEqual(headers, {"contentType": "text/plain", "x-trace.id": "ü"})
        self.assertEqual(
            fields,
            {
                "ONCEBOX_SOURCE": "shop",
                "ONCEBOX_MESSAGE_ID": "7",
                "ONCEBOX_MESSAGE_FILE": file_name("shop", "7"),
                "ONCEBOX_TOPIC": "order.paid",
                "ONCEBOX_ATTEMPT": "1",
                "ONCEBOX_PARTITION_KEY": "p1",
                "ONCEBOX_HEADER_CONTENTTYPE": "text/plain",
                "ONCEBOX_HEADER_X_TRACE_ID": "ü",
                "ONCEBOX_AMBIGUOUS_HEADERS": "",
                "ONCEBOX_REPLY": "/dev/fd/3",
            },
        )
        self.assertEqual(self.record("7")["status"], "Done")

    def environment_of(self, *options, **more):
        """The environment that a command gets for the one message there is."""
        self.assertEqual(
            self.drain(self.script("dump", "env -0 > variables"), *options, **more)["done"], 1
        )
        texts = (self.folder / "variables").read_text().split("\0")[:-1]
        variables = [text.split("=", 1) for text in texts]
        self.assertEqual(len(dict(variables)), len(variables), "a variable is there twice")
        return dict(variables)

    def test_the_example_that_stores_messages_in_files_keeps_to_its_folder(self):
        page = (PROJECT / "docs" / "cli.md").read_text()
        (example,) = re.findall(r"^oncebox (work .*inbox/.*)$", page, re.MULTILINE)
        (self.folder / "deep" / "inbox").mkdir(parents=True)
        self.url = f"sqlite:{self.folder}/queue.db"
        for message_id in HOSTILE_IDS:
            self.out("send", "--source", "shop", f"--id={message_id}", "-t", "t", "-d", "x")
        before = {path.name for path in self.folder.iterdir()}
        subprocess.run(
            [PROGRAM, *shlex.split(example)],
            cwd=self.folder / "deep",
            env=self.environment(),
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(
            {path.name for path in (self.folder / "deep" / "inbox").iterdir()},
            {file_name("shop", message_id) for message_id in HOSTILE_IDS},
        )
        self.assertEqual({path.name for path in self.folder.iterdir()}, before)
        self.assertEqual([path.name for path in (self.folder / "deep").iterdir()], ["inbox"])

    def test_the_command_gets_no_secrets_of_its_worker(self):
        self.send("1")
        secrets = {
            name: "secret"
            for name in (
                *("ONCEBOX_TOKEN", "ONCEBOX_TOKENS", "ONCEBOX_STORES", "ONCEBOX_CONFIG"),
                *("ONCEBOX_DISCOVERY_DATABASE", "ONCEBOX_NOTICES_SECRET", "ONCEBOX_ANYTHING"),
            )
        }
        # What is not the worker's is the command's.
        others = {"PGPASSWORD": "of the command", "MINE": "ONCEBOX_TOKEN=x", "PAGER": ""}
        variables = self.environment_of(variables={**secrets, **others})
        self.assertEqual({**variables, **others}, variables)
        self.assertEqual(
            {name for name in variables if name.startswith("ONCEBOX_")},
            {
                *("ONCEBOX_SOURCE", "ONCEBOX_MESSAGE_ID", "ONCEBOX_MESSAGE_FILE"),
                *("ONCEBOX_TOPIC", "ONCEBOX_ATTEMPT", "ONCEBOX_DELIVERY"),
                *("ONCEBOX_HEADERS", "ONCEBOX_AMBIGUOUS_HEADERS", "ONCEBOX_REPLY"),
            },
        )
        self.assertNotIn("secret", variables.values())

    def test_headers_that_would_be_one_variable_are_left_out_and_named(self):
        headers = {"a-b": "1", "a_b": "2", "a b": "3", "Trace": "4", "trace": "5", "plain": "6"}
        options = [part for pair in headers.items() for part in ("-H", "=".join(pair))]
        self.out("send", "-t", "t", "-d", "x", *options)
        variables = self.environment_of()
        self.assertEqual(
            {name: text for name, text in variables.items() if "HEADER_" in name},
            {"ONCEBOX_HEADER_PLAIN": "6"},
        )
        self.assertEqual(
            variables["ONCEBOX_AMBIGUOUS_HEADERS"], "ONCEBOX_HEADER_A_B ONCEBOX_HEADER_TRACE"
        )
        self.assertEqual(json.loads(variables["ONCEBOX_HEADERS"]), headers)

    def test_headers_with_any_names_set_no_other_variables(self):
        headers = {"s": "1", "topic\nPATH": "2", "../x": "3", "ü": "4", "": "5", "PATH": "6"}
        del headers[""]  # the one name that there cannot be
        self.write("line", json.dumps({"topic": "t", "payload": "x", "headers": headers}))
        self.out("send", "--ndjson", "line")
        variables = self.environment_of()
        self.assertEqual(variables["ONCEBOX_TOPIC"], "t")
        self.assertEqual(variables["PATH"], os.environ["PATH"])
        self.assertEqual(json.loads(variables["ONCEBOX_HEADERS"]), headers)
        self.assertEqual(
            {name: text for name, text in variables.items() if name.startswith("ONCEBOX_HEADER_")},
            {
                "ONCEBOX_HEADER_S": "1",
                "ONCEBOX_HEADER_TOPIC_PATH": "2",
                "ONCEBOX_HEADER____X": "3",
                "ONCEBOX_HEADER___": "4",
                "ONCEBOX_HEADER_PATH": "6",
            },
        )

    def test_headers_too_large_for_one_variable_come_one_by_one(self):
        # 64 values of 8 KiB are four times what the kernel takes as one string.
        headers = {f"h{number}": "x" * 8192 for number in range(64)}
        self.write("line", json.dumps({"topic": "t", "payload": "x", "headers": headers}))
        self.out("send", "--ndjson", "line")
        variables = self.environment_of()
        self.assertNotIn("ONCEBOX_HEADERS", variables)
        self.assertEqual(
            {name: text for name, text in variables.items() if "HEADER_" in name},
            {f"ONCEBOX_HEADER_{name.upper()}": text for name, text in headers.items()},
        )

    def test_headers_up_to_what_the_kernel_takes_are_one_variable(self):
        # NAME=, the text and the NUL behind it are 131,072 bytes, the most that one string has.
        names = [f"h{number:02}" for number in range(16)]
        left = 131_072 - len("ONCEBOX_HEADERS=") - 1 - len(json.dumps(dict.fromkeys(names, "")))
        left += 2 * len(names) - 1  # json.dumps writes blanks behind : and ,
        values = ["x" * (left // 16 + (1 if number < left % 16 else 0)) for number in range(16)]
        headers = dict(zip(names, values))
        self.write("line", json.dumps({"topic": "t", "payload": "x", "headers": headers}))
        self.out("send", "--ndjson", "line")
        self.assertEqual(json.loads(self.environment_of()["ONCEBOX_HEADERS"]), headers)
        headers["h00"] += "x"
        self.write("line", json.dumps({"topic": "t", "payload": "x", "headers": headers}))
        self.out("send", "--ndjson", "line")
        self.assertNotIn("ONCEBOX_HEADERS", self.environment_of())

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

    def last_attempt(self, message_id):
        return self.record(message_id)["attempts"][-1]

    def hours_until_again(self, message_id, since):
        """How many hours after that time the message can be claimed again."""
        again = self.record(message_id)["eligibleAt"].replace("Z", "+00:00")
        return (datetime.datetime.fromisoformat(again) - since).total_seconds() // 3600

    def test_an_attempt_tells_how_the_command_ended(self):
        ends = {"3": "exit 3", "65": "exit 65", "75": "exit 75", "kill": "signal 9"}
        for end in ends:
            self.send(end)
        script = self.script(
            "end", '[ "$ONCEBOX_MESSAGE_ID" = kill ] && kill -9 $$; exit "$ONCEBOX_MESSAGE_ID"'
        )
        self.drain(script)
        self.assertEqual({end: self.last_attempt(end)["errorKind"] for end in ends}, ends)
        self.send("slow", topic="slow")
        self.drain(self.script("slow", "sleep 1000"), "-t", "slow", "--timeout", "50ms")
        self.assertEqual(self.last_attempt("slow")["errorKind"], "timeout")

    def test_a_command_that_is_not_ready_gives_its_message_back(self):
        self.send("1")
        script = self.script("busy", "echo the ledger is closed >&2; exit 79")
        self.assertEqual(self.drain(script)["released"], 1)
        record = self.record("1")
        self.assertEqual((record["status"], record["attempt"]), ("Processing", 0))
        self.assertNotIn("lastError", record)
        self.assertEqual(record["waitingFor"], "Backoff")

    def reply(self, message_id, reply, code):
        """What becomes of a message whose command says this, and ends so."""
        self.send(message_id)
        before = now()
        script = self.script("reply", f'printf "{reply}" > "$ONCEBOX_REPLY"; {code}')
        self.drain(script, "--max-attempts", "2")
        record = self.record(message_id)
        if record["status"] != "Processing":
            return record["status"]
        return record["attempt"], self.hours_until_again(message_id, before)

    def test_a_command_may_say_when_its_message_is_to_come_again(self):
        for message_id, reply, code, became in (
            ("failed", "retry-after 5h", "exit 1", (1, 5)),
            ("failed-75", "retry-after 5h", "exit 75", (1, 5)),
            ("not-now", "not-now 5h", "exit 1", (0, 5)),
            ("not-now-79", "not-now 5h\\n", "exit 79", (0, 5)),
            ("failed-79", "retry-after 5h", "exit 79", (1, 5)),
            ("the-last-line", "not-now 9h\\nretry-after 5h\\n\\n", "exit 1", (1, 5)),
            ("killed", "retry-after 5h", "kill -9 $$", (1, 5)),
            ("killed-is-tried", "not-now 5h", "kill -9 $$", (1, 1)),
            ("no-reply", "later", "exit 1", (1, 1)),
            ("done", "retry-after 5h", "exit 0", "Done"),
            ("for-good", "retry-after 5h", "exit 65", "Dead"),
        ):
            with self.subTest(message_id):
                self.assertEqual(self.reply(message_id, reply, code), became)

    def test_a_named_delay_does_not_add_a_try(self):
        self.send("1")
        script = self.script("fail", "echo retry-after 1ms >&3; exit 1")
        self.assertEqual(self.drain(script, "--max-attempts", "1")["dead"], 1)

    def test_a_reply_that_means_nothing_is_told(self):
        self.send("1")
        script = self.script("reply", r"printf 'in an hour\033' > $ONCEBOX_REPLY; exit 1")
        said = self.run_program("work", "--drain", *LATER, "--", script).stderr.decode()
        self.assertIn("oncebox: ONCEBOX_REPLY: in is no reply; write retry-after 30s", said)

    def test_a_reply_without_end_takes_no_memory_and_no_place(self):
        self.send("1")
        script = self.script("flood", "head -c 1000000 /dev/zero > $ONCEBOX_REPLY; exit 0")
        self.assertEqual(self.drain(script)["done"], 1)

    def test_with_delays_of_its_own_the_rule_of_the_topic_says_how_often(self):
        self.out(*("topics set order.* --max-attempts 2 --delay 5h".split()))
        self.send("1")
        fail = self.script("fail", "exit 1")
        before = now()
        self.assertEqual(self.drain(fail)["retried"], 1)
        self.assertEqual(self.hours_until_again("1", before), 1, "its own delay")
        self.out("messages", "run-now", "1")
        self.assertEqual(self.drain(fail)["dead"], 1)

    def test_with_a_limit_of_its_own_the_rule_of_the_topic_says_when(self):
        self.out(*("topics set order.* --max-attempts 9 --delay 5h --jitter none".split()))
        self.send("1")
        work = ("work", "--drain", "--json", "--max-attempts", "2", "--")
        fail = self.script("fail", "exit 1")
        before = now()
        self.assertEqual(json.loads(self.out(*work, fail))["retried"], 1)
        self.assertEqual(self.hours_until_again("1", before), 5)
        self.out("messages", "run-now", "1")
        self.assertEqual(json.loads(self.out(*work, fail))["dead"], 1)

    def test_a_longest_delay_alone_is_refused(self):
        error = self.err("work", "--max-retry-delay", "1s", "--", "/bin/true", code=2)
        self.assertIn("--max-retry-delay is for --retry-delay", error)

    def test_a_message_tells_who_tried_it_and_what_went_wrong(self):
        self.send("7")
        script = self.script("fail", "echo no luck >&2; exit 65")
        self.assertEqual(self.drain(script, "--name", "shop-3")["dead"], 1)
        for command in ("get 7", "dead show 7"):
            text = self.out(*command.split())
            self.assertRegex(text, r"ATTEMPT +BEGUN +ENDED +OUTCOME +WORKER +ERROR\n")
            self.assertRegex(text, r" 1  .+  failed +shop-3  exit 65: no luck\n")
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

    def work_on_a_stalled_reader(self, end, *options):
        """Works on a message by a command that writes more to standard error than is read."""
        self.send("1")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        flood = "head -c 1000000 /dev/zero | tr '\\0' x | fold -w 100 >&2"
        process = self.start(
            *("work", *options, "--", self.script("flood", f"{flood}; echo flooded > told; {end}")),
            stdout=subprocess.DEVNULL,
            stderr=writer,
        )
        os.close(writer)
        return process

    def test_a_reader_that_stalls_holds_up_no_timeout(self):
        told = self.fifo("told")
        options = ("--drain", *LATER, "--timeout", "10s", "--grace", "100ms")
        process = self.work_on_a_stalled_reader("exec sleep 1000", *options)
        read_until(told, b"\n")
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertIn("timed out after 10s", self.record("1")["lastError"])

    def test_a_reader_that_stalls_does_not_keep_a_worker_from_ending(self):
        told = self.fifo("told")
        options = ("--finish-within", "100ms", "--grace", "100ms")
        process = self.work_on_a_stalled_reader("exec sleep 1000", *options)
        read_until(told, b"\n")
        process.terminate()
        process.wait(PATIENCE_S)
        self.assertEqual(self.json("stats")["total"]["leased"], 0)

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
        # 3 is for the reply; the last one is the folder that ls reads.
        self.assertEqual(out.split(), [b"0", b"1", b"2", b"3", b"4"])
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
        # The slow command, and the process that ends commands when the worker dies.
        self.assertEqual(states, [True, True])
        os.write(go_on, b"go\n")
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_killed_worker_takes_its_commands_and_their_children_along(self):
        pids = self.fifo("pids")
        self.send("1")
        # Standard output is the worker's, and everything that the command starts holds it open.
        script = self.script(
            "family",
            "trap '' TERM HUP INT; sleep 1000 & (trap '' TERM; sleep 1000 & wait) & echo . > pids;"
            " wait; wait",
        )
        process = self.work(script)
        read_until(pids, b".")
        process.kill()
        self.assertEqual(read_to_the_end_of(process.stdout), b"")

    def test_a_worker_killed_while_it_starts_commands_leaves_none_behind(self):
        started = self.fifo("started")
        for number in range(40):
            self.send(str(number))
        script = self.script("run", "echo . > started; sleep 1000 & sleep 1000")
        for number in (1, 2, 4, 8, 12, 16):
            with self.subTest(number=number):
                process = self.work(script, *("--concurrency 16 --lease 1s".split()))
                for _ in range(number):
                    os.read(started, 2)
                process.kill()
                self.assertEqual(read_to_the_end_of(process.stdout), b"")
                while select.select([started], [], [], 0)[0]:
                    os.read(started, 100)

    def guard_of(self, worker):
        """The process that ends commands when the worker dies."""
        for path in pathlib.Path(f"/proc/{worker.pid}/task").glob("*/children"):
            for pid in path.read_text().split():
                if pathlib.Path(f"/proc/{pid}/comm").read_text() == "oncebox-guard\n":
                    return int(pid)
        self.fail("the worker has no guard")

    def test_what_ends_commands_with_their_worker_takes_no_notice_of_signals(self):
        started = self.fifo("started")
        self.send("1")
        process = self.work(self.script("run", "echo . > started; sleep 1000 & sleep 1000"))
        read_until(started, b".")
        guard = self.guard_of(process)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(guard, number)
        process.kill()
        self.assertEqual(read_to_the_end_of(process.stdout), b"")

    def test_a_worker_without_its_guard_says_so_and_goes_on(self):
        started = self.fifo("started")
        self.send("1")
        process = self.work(self.script("run", "echo . > started"))
        read_until(started, b".")
        os.kill(self.guard_of(process), signal.SIGKILL)
        self.send("2")
        read_until(process.stderr.fileno(), b"restart this worker")
        self.send("3")
        while self.json("stats")["total"]["done"] < 3:
            pass
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertNotIn(b"restart this worker", process.stderr.read())

    def test_a_command_ends_with_a_worker_that_has_lost_its_guard(self):
        started = self.fifo("started")
        self.send("1")
        process = self.work(self.script("run", "echo . > started; exec sleep 1000"))
        read_until(started, b".")
        os.kill(self.guard_of(process), signal.SIGKILL)
        process.kill()
        self.assertEqual(read_to_the_end_of(process.stdout), b"")

    def test_a_worker_that_ends_leaves_what_a_finished_command_left_behind(self):
        started = self.fifo("started")
        self.send("1")
        script = self.script("leave", "sleep 1000 > /dev/null 2>&1 & echo $! > started")
        process = self.work(script)
        left_behind = int(read_until(started, b"\n"))
        self.addCleanup(os.kill, left_behind, signal.SIGKILL)
        while self.json("stats")["total"]["done"] < 1:
            pass
        process.kill()
        self.assertEqual(read_to_the_end_of(process.stdout), b"")
        self.assertTrue(is_alive(left_behind))

    def test_a_command_that_cannot_be_started_any_more_is_a_failure(self):
        self.send("1")
        for reason, text in (
            ("No such file or directory", "#!/nowhere/interpreter\n"),
            ("Permission denied", "#!/dev/null\n"),
        ):
            with self.subTest(reason=reason):
                script = self.script("broken", "")
                script.write_text(text)
                self.send(reason, topic="start")
                self.assertEqual(self.drain(script, "-t", "start")["retried"], 1)
                self.assertEqual(
                    self.record(reason)["lastError"], f"the command cannot be started: {reason}"
                )

    def test_files_of_many_stores_have_names_of_their_own(self):
        named = self.fifo("named")
        self.write("stores.toml", STORE.format("acme") + STORE.format("nova"))
        for store in ("acme", "nova"):
            self.send("1", variables={"ONCEBOX_URL": f"sqlite:{store}.db"})
        script = self.script("tell", 'echo "$ONCEBOX_STORE $ONCEBOX_MESSAGE_FILE" > named')
        process = self.work(script, "--stores", "stores.toml")
        lines = b""
        while lines.count(b"\n") < 2:
            lines += read_until(named, b"\n")
        self.assertEqual(
            sorted(lines.decode().splitlines()),
            [f"{store} {file_name(store, 'cli', '1')}" for store in ("acme", "nova")],
        )
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
