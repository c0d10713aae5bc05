"""The commands that look at a store and change it, on SQLite."""

import base64
import json
import os
import pwd
import re
import subprocess
import time
import unittest

from program import MANY, PATIENCE_S, ProgramTest

USER = pwd.getpwuid(os.geteuid()).pw_name


class SendAndLook(ProgramTest):
    def test_a_message_is_known_by_its_source_and_id(self):
        self.assertEqual(self.send("42"), "accepted 42\n")
        self.assertEqual(self.send("42"), "duplicate 42\n")
        self.assertEqual(self.send("42", data="other").split()[0], "updated")
        again = self.json("send", "--id", "42", "-t", "order.created", "-d", "{}", "-s", "shop")
        self.assertEqual(again, {"source": "shop", "messageId": "42", "status": "Accepted"})
        self.assertIn("--source", self.err("get", "42", code=1))
        self.assertEqual(self.record("42", "--source", "shop")["source"], "shop")

    def test_all_that_can_be_said_about_a_message_is_stored(self):
        self.run_program(
            *("send --id 1 --source shop --topic mail --priority -5".split()),
            *("--partition-key p --header a=b --header c=d=e".split()),
            *("--due 2030-01-01T00:00:00Z --expires 2031-01-01T00:00:00+01:00".split()),
            data="from stdin",
        )
        record = self.record("1")
        expected = {
            "source": "shop",
            "topic": "mail",
            "priority": -5,
            "partitionKey": "p",
            "headers": {"a": "b", "c": "d=e"},
            "dueAt": "2030-01-01T00:00:00.000Z",
            "expiresAt": "2030-12-31T23:00:00.000Z",
            "payload": "from stdin",
            "status": "Processing",
        }
        self.assertEqual({name: record.get(name) for name in expected}, expected)
        text = self.out("get", "1")
        for line in ["state            waiting", "header c         d=e", "priority         -5"]:
            self.assertIn(line, text)

    def test_a_payload_comes_back_byte_by_byte(self):
        payload = bytes(range(256)) * 300
        (self.folder / "payload").write_bytes(payload)
        self.out("send", "-t", "x", "--id", "file", "--file", "payload")
        self.run_program("send", "-t", "x", "--id", "stdin", data=payload)
        for message_id in ("file", "stdin"):
            self.assertEqual(self.run_program("get", "--payload", message_id).stdout, payload)
            record = self.record(message_id)
            self.assertEqual(base64.b64decode(record["payloadBase64"]), payload)

    def test_content_that_changes_can_be_refused(self):
        self.send("1", data="a")
        refusing = ("--on-hash-mismatch", "reject", "--id", "1", "-t", "x", "-d", "b")
        self.assertIn("rejected", self.out("send", *refusing, code=1))
        other_topic = ("--on-hash-mismatch", "keep-first", "--id", "1", "-t", "x", "-d", "a")
        self.assertIn("rejected", self.out("send", *other_topic, code=1))
        answer = self.json("send", "--on-hash-mismatch", "quarantine", *refusing[2:], code=1)
        self.assertEqual(answer["status"], "Quarantined")
        self.assertEqual(self.out("get", "--payload", "1"), "a")
        self.assertEqual(self.record(answer["quarantinedAs"])["status"], "Dead")
        self.assertIn("updated", self.send("1", data="c", topic="y"))

    def test_lists_are_filtered_and_paged(self):
        for number in range(25):
            self.send(f"a{number:02}", topic="order.created" if number % 2 else "mail.sent")
        page = self.json("list", "--limit", "10")
        ids = [message["messageId"] for message in page["messages"]]
        self.assertEqual(ids, [f"a{number:02}" for number in range(10)])
        second = self.json("list", "--limit", "10", "--after", page["next"])
        self.assertEqual(second["messages"][0]["messageId"], "a10")
        every = self.json_lines("list", "--all", "--newest")
        self.assertEqual([m["messageId"] for m in every], [f"a{n:02}" for n in range(24, -1, -1)])
        self.assertEqual(len(self.json_lines("list", "--all", "--topic", "mail.*")), 13)
        self.assertEqual(len(self.json_lines("list", "--all", "--status", "dead")), 0)
        self.assertEqual(len(self.json_lines("list", "--all", "--seen-since", "1h")), 25)
        self.assertEqual(len(self.json_lines("list", "--all", "--seen-before", "1h")), 0)
        result = self.run_program("list", "--limit", "3")
        self.assertEqual(len(result.stdout.decode().splitlines()), 4)
        self.assertRegex(result.stderr.decode(), r"more: --after \S+ or --all")

    def test_tables_line_up(self):
        self.send("1", topic="注文")
        self.send("22", topic="order")
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", self.out("list"))
        self.assertEqual(
            text,
            "STATE  TOPIC  SOURCE  ID  FAILED  FIRST SEEN           LAST ERROR\n"
            "ready  注文   cli     1        0  TIME\n"
            "ready  order  cli     22       0  TIME\n",
        )

    def test_statistics_count_by_topic(self):
        self.send("1", topic="a")
        self.send("2", topic="b")
        self.out("send", "--topic", "b", "--due", "1h", "-d", "x")
        self.assertEqual(
            re.sub(r" +\d+s", "   0s", self.out("stats")),
            "TOPIC       READY  WAITING  FOR    LEASED  DONE  DEAD  SEEN  OLDEST READY  "
            "OLDEST DEAD\n"
            "a               1        0  -           0     0     0     0   0s            -\n"
            "b               1        1  due 1       0     0     0     0   0s            -\n"
            "all topics      2        1  due 1       0     0     0     0   0s            -\n",
        )
        self.assertEqual(self.json("stats")["total"]["ready"], 2)

    def test_both_queues_can_be_meant(self):
        self.out("send", "--queue", "outbox", "-t", "x", "--id", "1", "-d", "out")
        self.err("get", "1", code=1)
        self.assertEqual(self.out("get", "1", "--queue", "outbox", "--payload"), "out")

    def test_a_memory_store_is_there_for_one_command(self):
        self.assertIn("accepted", self.send("1", variables={"ONCEBOX_URL": "memory:"}))
        self.assertEqual(self.json("list", "--url", "memory:"), {"messages": []})


class SendLines(ProgramTest):
    def test_a_hundred_thousand_lines_are_sent_in_batches(self):
        lines = "".join(
            f'{{"messageId": "m{number}", "topic": "bulk", "payload": {{"n": {number}}}}}\n'
            for number in range(MANY)
        )
        self.write("bulk.ndjson", lines)
        self.assertEqual(
            self.out("send", "--ndjson", "bulk.ndjson"),
            f"sent {MANY:,} messages: {MANY:,} accepted\n",
        )
        self.assertEqual(
            self.json("send", "--ndjson", "-", "--batch", "5000", data=lines),
            {
                "messages": MANY,
                "badLines": 0,
                "hashMismatches": 0,
                "outcomes": {"duplicate": MANY},
            },
        )
        self.assertEqual(self.json("stats")["total"]["ready"], MANY)

    def test_lines_that_are_no_messages_are_named_and_the_rest_is_sent(self):
        lines = [
            '{"messageId": "1", "topic": "x", "payload": 1}',
            '{"messageId": "2", "tpic": "x"}',
            "",
            "no JSON",
            '{"messageId": "3", "topic": "x", "payload": ""}',
        ]
        result = self.run_program("send", "--ndjson", "-", code=65, data="\n".join(lines))
        self.assertEqual(
            result.stdout.decode(), "sent 2 messages: 2 accepted; 2 lines are no messages\n"
        )
        self.assertRegex(result.stderr.decode(), r"(?m)^line 2: .*tpic")
        self.assertRegex(result.stderr.decode(), r"(?m)^line 4: ")
        self.assertNotIn("no JSON", result.stderr.decode())

    def test_defaults_fill_what_lines_leave_out(self):
        line = '{"topic": "x", "payload": ""}'
        self.out("send", "--source", "s", "-H", "a=b", "--ndjson", "-", data=line)
        (record,) = self.json_lines("list", "--all", "--payloads")
        self.assertEqual((record["source"], record["headers"]), ("s", {"a": "b"}))
        self.assertRegex(record["messageId"], r"^[0-9a-f-]{36}$")

    def wait_for_messages(self, ids):
        """Waits until these are stored, and no others."""
        give_up_at = time.monotonic() + PATIENCE_S
        stored = None
        while stored != ids:
            self.assertLess(time.monotonic(), give_up_at, stored)
            stored = [message["messageId"] for message in self.json_lines("list", "--all")]

    def test_lines_of_a_slow_writer_are_stored_as_they_come(self):
        sending = self.start("send", "--ndjson", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Whatever has come of the next line does not keep back the one before.
        for text, stored in [
            ('{"messageId": "1", "topic": "x", "payload": 1}\n', ["1"]),
            ('{"messageId": "2", "topic": "x", "payload": 2}\n{"messageId": "3",', ["1", "2"]),
            (
                '"topic": "x", "payload": 3}\n{"messageId": "4", "topic": "x", "payload": 4}\n',
                ["1", "2", "3", "4"],
            ),
        ]:
            sending.stdin.write(text.encode())
            sending.stdin.flush()
            self.wait_for_messages(stored)
        out, _ = sending.communicate(timeout=PATIENCE_S)
        self.assertEqual((out, sending.returncode), (b"sent 4 messages: 4 accepted\n", 0))

    def test_a_progress_bar_is_drawn_on_a_terminal_only(self):
        line = '{"topic": "x", "payload": "y"}\n'
        self.write("lines", line * 2000)
        drawn = self.on_terminal("send", "--ndjson", "lines")
        self.assertRegex(drawn, r"\[#*\.*\] +\d+ %  .* messages, .* per second")
        self.assertIn("sent 2,000 messages", drawn)
        self.assertNotIn("%", self.run_program("send", "--ndjson", "lines").stderr.decode())


class DeadMessages(ProgramTest):
    def setUp(self):
        super().setUp()
        for number in range(6):
            self.send(f"d{number}", topic="mail" if number < 4 else "order")
        self.send("alive", topic="alive")
        fail = self.script("fail", 'echo "no luck with $ONCEBOX_MESSAGE_ID" >&2; exit 65')
        self.out("work", "--drain", "-t", "mail", "-t", "order", "--", fail)

    def dead(self):
        return sorted(m["messageId"] for m in self.json_lines("dead", "list", "--all"))

    def test_they_are_listed_and_shown_with_their_error(self):
        self.assertEqual(self.dead(), ["d0", "d1", "d2", "d3", "d4", "d5"])
        self.assertIn("no luck with d3", self.out("dead", "show", "d3"))
        self.assertEqual(self.json("dead", "show", "d3")["lastError"], "no luck with d3")
        self.assertIn("not dead", self.err("dead", "show", "alive", code=1))
        found = self.json_lines("dead", "list", "--all", "--error", "with d5")
        self.assertEqual([m["messageId"] for m in found], ["d5"])

    def test_some_are_revived_by_id(self):
        text = self.out("dead", "revive", "d0", "d1", "--reason", "fixed", "--delay", "1h")
        self.assertEqual(text, "revived 2 of 2\n")
        self.assertEqual(self.dead(), ["d2", "d3", "d4", "d5"])
        self.assertIn("fixed", self.out("get", "d0"))
        self.assertIn("waiting", self.out("list", "--status", "processing"))
        self.assertEqual(
            self.json("dead", "revive", "--source", "cli", "d0", "d2", "nobody", code=1),
            {"results": ["NotDead", "Revived", "Unknown"], "count": 1},
        )

    def test_one_is_corrected_and_what_it_had_is_kept(self):
        self.write("fixed", "a better payload")
        edit = ("dead", "edit", "cli", "d0", "--payload", "fixed", "--reason", "a typo")
        self.assertEqual(self.out(*edit), "revived with the new payload\n")
        self.assertIn("not dead", self.out(*edit, code=1))
        self.assertEqual(self.record("d0")["payload"], "a better payload")
        history = ("dead", "history", "cli", "d0")
        past = self.json(*history)["contents"]
        self.assertEqual([content["payload"] for content in past], ["{}"])
        self.assertEqual(past[0]["replacedBy"], USER)
        self.assertIn("a typo", self.out(*history))
        self.assertEqual(self.out(*history, "--payload-of", "1"), "{}")
        self.assertIn("no payload", self.err(*history, "--payload-of", "7", code=1))
        stdin = self.json("dead", "edit", "cli", "d1", "--payload", "-", data="by pipe")
        self.assertEqual(stdin, {"results": ["Revived"], "count": 1})
        self.assertIn("--payload", self.err("dead", "edit", "cli", "d2", code=2))
        self.assertIn(
            "no such message",
            self.out("dead", "edit", "cli", "nobody", "--payload", "fixed", code=1),
        )

    def test_the_trail_tells_who_did_what(self):
        self.out("dead", "revive", "--topic", "mail", "--reason", "mail works again")
        self.out("dead", "purge", "--source", "cli", "d4", "--reason", "a test")
        self.out("dead", "purge", "--all", "--dry-run")
        self.write("fixed", "x")
        self.out("dead", "edit", "cli", "d5", "--payload", "fixed")
        entries = self.json("audit", "list")["entries"]
        self.assertEqual(
            [(e["actor"], e["action"], e.get("reason"), e["changed"]) for e in entries],
            [
                (USER, "ReviveEdited", None, 1),
                (USER, "Purge", "a test", 1),
                (USER, "Revive", "mail works again", 4),
            ],
        )
        self.assertIn('"topic":"mail"', entries[2]["subject"])
        text = self.out("audit", "list", "--action", "purge", "--action", "edit", "--since", "1h")
        self.assertEqual(len(text.splitlines()), 3, text)
        self.assertIn("a test", text)
        self.assertEqual(self.json("audit", "list", "--actor", "nobody"), {"entries": []})
        self.assertIn("--after", self.err("audit", "list", "--limit", "1", code=0))
        self.assertEqual(len(self.json_lines("audit", "list", "--all")), 3)

    def test_some_are_revived_by_a_filter(self):
        self.assertEqual(
            self.out("dead", "revive", "--topic", "mail", "--dry-run"), "would be revived 4\n"
        )
        self.assertEqual(len(self.dead()), 6)
        self.assertEqual(self.json("dead", "revive", "-t", "mail", "-n", "3")["count"], 3)
        self.assertEqual(self.dead(), ["d3", "d4", "d5"])
        self.assertEqual(self.out("dead", "revive", "--all"), "revived 3\n")
        self.assertEqual(self.dead(), [])

    def test_they_are_purged_by_id_filter_or_all(self):
        self.assertEqual(self.json("dead", "purge", "d0", "--dry-run")["count"], 1)
        self.assertEqual(self.out("dead", "purge", "d0"), "purged 1 of 1\n")
        self.err("get", "d0", code=1)
        self.assertEqual(self.out("dead", "purge", "--finished-before", "1h"), "purged 0\n")
        self.assertEqual(self.out("dead", "purge", "--error", "with d5"), "purged 1\n")
        self.assertEqual(self.json("dead", "purge", "--all")["count"], 4)
        self.assertEqual([m["messageId"] for m in self.json_lines("list", "--all")], ["alive"])

    def test_they_are_grouped_by_topic_and_kind_of_error(self):
        found = self.json("dead", "groups")
        self.assertEqual((found["messages"], found["complete"]), (6, True))
        by_topic = {group["topic"]: group for group in found["groups"]}
        # Their errors name them, which makes no difference.
        self.assertEqual(len(found["groups"]), 2)
        self.assertEqual(by_topic["order"]["count"], 2)
        text = self.out("dead", "groups", "--topic", "order")
        self.assertRegex(text, r"GROUP +COUNT +LAST +ERROR\n")
        self.assertIn("no luck with <id>", text)
        self.assertNotIn("mail", text)
        self.assertIn("not listed", self.out("dead", "groups", "--limit", "1"))
        self.assertIn("the last 3", self.out("dead", "groups", "--messages", "3"))

    def test_a_group_is_revived_at_a_rate_or_purged(self):
        found = self.json("dead", "groups", "--error", "with d5")["groups"]
        group = found[0]["group"]
        self.assertEqual(
            self.out("dead", "revive", "--group", group, "--rate", "0.5", "--dry-run"),
            "would be revived 2; the last is due in 2s\n",
        )
        self.assertEqual(
            self.json("dead", "revive", "--all", "--rate", "0.01"),
            {"count": 6, "dryRun": False, "lastsSeconds": 500},
        )
        self.assertEqual(self.dead(), [])
        self.assertEqual(self.out("dead", "purge", "-g", group), "purged 0\n")
        for rate in ("0", "-1", "fast"):
            self.err("dead", "revive", "--all", "--rate", rate, code=2)

    def test_a_selection_that_says_two_things_changes_nothing(self):
        both = "of the filters only --source goes with ids"
        for command in ("purge", "revive"):
            for arguments, said in [
                (["--finished-before", "30d", "d0"], both),
                (["d0", "--topic", "mail"], both),
                (["d0", "--all"], "ids and --all, --group or --limit exclude each other"),
                (["d0", "--limit", "1"], "ids and --all, --group or --limit exclude each other"),
                (["d0", "--group", "0" * 16], "exclude each other"),
                (["--all", "--group", "0" * 16], "--all and --group exclude each other"),
                (["--group", "mail"], "16 hexadecimal digits"),
                (["--all", "--limit", "0"], "the limit"),
                (["--topic", "mail", "-n", "0"], "the limit"),
            ]:
                with self.subTest(command=command, arguments=arguments):
                    self.assertIn(said, self.err("dead", command, *arguments, code=2))
        self.assertEqual(self.dead(), ["d0", "d1", "d2", "d3", "d4", "d5"])


class Topics(ProgramTest):
    def test_a_rule_is_set_field_by_field_listed_and_removed(self):
        rule = self.json(
            *("topics set order.* --max-attempts 5 --delay 1s --delay 1m".split()),
            *("--jitter equal --max-concurrency 2 --reason why --rate".split()), "10/1m burst 3",
        )
        self.assertEqual(rule, {
            "topic": "order.*", "maxAttempts": 5, "delaysSeconds": [1, 60], "jitter": "Equal",
            "maxConcurrency": 2, "rate": {"count": 10, "perSeconds": 60, "burst": 3},
        })
        self.out("topics", "set", "order.*", "--backoff", "2s", "--give-up-after", "7d")
        table = self.out("topics", "list")
        self.assertIn("backoff 2s, jitter equal", table)
        self.assertIn("10/1m burst 3", table)
        self.assertEqual(self.json("topics", "list", "--queue", "outbox"), {"policies": []})
        self.assertEqual(
            self.json(*("topics set order.* --max-attempts default --backoff default".split()),
                      *("--give-up-after never --rate unlimited --jitter default".split())),
            {"topic": "order.*", "giveUpAfterSeconds": 0, "maxConcurrency": 2})
        self.assertEqual(self.json("topics", "remove", "order.*"), {"count": 1})
        self.assertIn("no such rule", self.out("topics", "remove", "order.*", code=1))
        trail = self.json("audit", "list", "--action", "set-policy")["entries"]
        self.assertEqual(len(trail), 5)
        self.assertEqual((trail[-1]["reason"], trail[-1]["actor"]), ("why", USER))
        self.assertEqual([json.loads(entry["subject"]) for entry in trail[:4]], [
            {"topic": "order.*", "removed": True},
            {"topic": "order.*", "removed": True},
            {"topic": "order.*", "maxAttempts": None, "backoffSeconds": None, "jitter": None,
             "giveUpAfterSeconds": 0, "rate": None},
            {"topic": "order.*", "backoffSeconds": 2, "giveUpAfterSeconds": 604800},
        ])
        self.assertEqual([entry["changed"] for entry in trail[:3]], [0, 1, 1])

    def test_a_pause_holds_messages_back_from_every_process(self):
        self.send("1")
        self.out("topics", "pause", "order.*")
        self.assertIn("paused", self.out("topics", "list"))
        self.assertEqual(self.done(), 0)
        self.out("topics", "resume", "order.*")
        self.assertEqual(self.json("topics", "list"), {"policies": []})
        self.assertEqual(self.done(), 1)

    def done(self):
        """How many messages there are to handle."""
        return json.loads(self.out("work", "--drain", "--json", "--", "true"))["done"]

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("nothing to change", self.err("topics", "set", "x", code=2))
        for bad in (["--max-attempts", "0"], ["--rate", "ten"], ["--backoff", "0"],
                    ["--backoff", "1s", "--delay", "1s"], ["--max-attempts", "unlimited"]):
            self.err("topics", "set", "x", *bad, code=2)
        self.assertEqual(self.json("topics", "list"), {"policies": []})


class Messages(ProgramTest):
    def setUp(self):
        super().setUp()
        for number in range(3):
            self.out("send", "--topic", "mail", "--id", f"m{number}", "--data", "x")

    def test_one_is_cancelled_with_a_reason(self):
        text = self.out("messages", "cancel", "m0", "--reason", "by mistake")
        self.assertEqual(text, "cancelled 1 of 1\n")
        self.assertIn("cancelled: by mistake", self.out("dead", "show", "m0"))
        self.assertEqual(self.json("messages", "cancel", "m0", code=1), {
            "results": ["Refused"], "count": 0})
        self.assertIn("cancel", self.out("audit", "list"))

    def test_all_that_match_are_rescheduled_and_run(self):
        dry = self.out("messages", "reschedule", "--due", "1h", "--topic", "mail", "--dry-run")
        self.assertEqual(dry, "would be rescheduled 3\n")
        self.out("messages", "reschedule", "--due", "1h", "--topic", "mail")
        self.assertIn("waiting: due", self.out("list"))
        waiting = self.json("stats")["total"]["waitingFor"]
        self.assertEqual(waiting["due"], 3)
        text = self.out("messages", "run-now", "--waiting-for", "due", "--limit", "2")
        self.assertEqual(text, "made ready 2\n")
        ready = self.json_lines("list", "--all", "--state", "ready")
        self.assertEqual([m["messageId"] for m in ready], ["m0", "m1"])

    def test_what_is_deleted_is_forgotten(self):
        self.assertEqual(self.out("messages", "delete", "--state", "ready"), "deleted 3\n")
        self.assertEqual(self.json_lines("list", "--all"), [])
        self.assertIn("which messages", self.err("messages", "delete", code=2))


class StoreHealth(ProgramTest):
    def test_it_tells_what_should_not_be_so(self):
        self.assertEqual(self.out("health"), "the store is healthy\n")
        self.send("1", topic="mail")
        self.assertEqual(self.json("health")["status"], "Healthy")
        late = ("health", "--ready-after", "1ms")
        self.assertRegex(self.out(*late, code=1), r"inbox +mail +\d+s +a message has been ready")
        report = self.json(*late, code=1)
        self.assertEqual(report["status"], "Degraded")
        self.assertEqual(report["findings"][0]["code"], "ReadyLate")


class Cleanup(ProgramTest):
    def test_only_what_is_finished_for_long_enough_is_removed(self):
        for message_id, topic in [("d", "done"), ("x", "fail"), ("w", "waits")]:
            self.send(message_id, topic=topic)
        self.out("work", "--drain", "-t", "done", "--", "true")
        self.out("work", "--drain", "-t", "fail", "--", self.script("fail", "exit 65"))
        self.assertEqual(self.out("cleanup"), "removed 0 done, 0 dead, 0 keys\n")
        self.assertEqual(
            self.json("cleanup", "--done-after", "0s", "--dead-after", "0s", "--reason", "a test"),
            {"doneRemoved": 1, "deadRemoved": 1, "keysRemoved": 0},
        )
        self.assertEqual([m["messageId"] for m in self.json_lines("list", "--all")], ["w"])
        newest = self.json("audit", "list")["entries"][0]
        self.assertEqual(
            (newest["actor"], newest["action"], newest["reason"], newest["changed"]),
            (USER, "Cleanup", "a test", 2),
        )


class KeysAndTheRest(ProgramTest):
    def test_keys_are_marked_shown_and_released(self):
        key = "shop:order/42 é"
        self.err("keys", "get", key, code=1)
        self.assertEqual(self.json("keys", "get", key, code=1)["status"], "Unknown")
        self.write("result", "the result")
        self.assertEqual(self.out("keys", "mark", key, "--result", "result"), "processed\n")
        self.assertEqual(self.json("keys", "get", key)["status"], "Processed")
        self.assertIn("the result", self.out("keys", "get", key))
        lease = "0190d3c2-4b1e-7c3a-9f00-3d2a1b4c5d6e"
        for asked, status in [(key, "Processed"), ("unknown", "Unknown")]:
            answer = self.json("keys", "release", "--lease-id", lease, asked, code=1)
            self.assertEqual(answer["status"], status)

    def test_migrations_make_the_tables_once(self):
        url = "sqlite:new.db?schema_deployment=off"
        self.err("list", "--url", url, code=1)
        self.assertIn("was brought to", self.out("migrate", "--url", url))
        self.assertIn("already has", self.out("migrate", "--url", url))
        self.assertFalse(self.json("migrate", "--url", url)["changed"])
        self.assertEqual(self.json("list", "--url", url), {"messages": []})

    def test_a_benchmark_settles_everything_it_sends(self):
        phases = self.json_lines(
            *("bench --messages 1001 --batch 100 --threads 3 --payload-bytes 10".split())
        )
        self.assertEqual([p["phase"] for p in phases], ["enqueue", "claim", "settle"])
        self.assertEqual([p["messages"] for p in phases], [1001] * 3)
        self.assertGreater(min(p["perSecond"] for p in phases), 0)
        self.assertEqual(self.json("stats")["total"]["done"], 1001)
        self.assertRegex(self.out("bench", "-n", "10"), r"(?m)^settle +10 ")

    def test_the_version_is_told(self):
        self.assertRegex(self.out("version"), r"^oncebox \d+\.\d+\.\d+\n$")
        self.assertIn("version", self.json("version"))


class PeopleAndPipes(ProgramTest):
    def test_colours_are_for_terminals_that_want_them(self):
        self.send("1")
        self.assertIn("\x1b[", self.on_terminal("list"))
        self.assertNotIn("\x1b", self.on_terminal("list", variables={"NO_COLOR": "1"}))
        self.assertNotIn("\x1b", self.on_terminal("list", variables={"TERM": "dumb"}))
        self.assertNotIn("\x1b", self.out("list"))
        json.loads(self.on_terminal("list", "--json"))

    def test_a_table_fits_its_terminal(self):
        self.send("i" * 100, topic="t" * 100)
        for columns in (72, 100, 200):
            shown = self.on_terminal("list", columns=columns, variables={"NO_COLOR": "1"})
            for line in shown.splitlines():
                self.assertLessEqual(len(line), columns, line)
        self.assertIn("i" * 100, self.out("list"))

    def test_nothing_in_a_message_drives_a_terminal(self):
        evil = "\x1b]0;evil\x07\x9b31m\u202etxt\r\x00\x7f"
        evil_id = "e\x1b[2J\u202e"
        self.run_program("send", "-t", "x", "--id", evil_id, "-H", "h=\x1b[31m", data=evil)
        shown = self.out("list")
        for arguments in (["list"], ["get", evil_id], ["get", "--payload", evil_id]):
            shown += self.on_terminal(*arguments, variables={"NO_COLOR": "1"})
        for character in "\x1b\x07\x9b\u202e\x00\x7f":
            self.assertNotIn(character, shown)
        self.assertIn("\\x1b]0;evil", shown)
        self.assertEqual(self.out("get", "--payload", evil_id), evil)

    def test_a_reader_may_close_the_pipe(self):
        lines = '{"topic": "x", "payload": "y"}\n' * (MANY // 5)
        self.out("send", "--ndjson", "-", data=lines)
        for arguments in (["list", "--all"], ["list", "--all", "--json"]):
            listing = self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertTrue(listing.stdout.readline())
            listing.stdout.close()
            self.assertEqual(listing.stderr.read(), b"")
            self.assertEqual(listing.wait(PATIENCE_S), 0)

    def test_statistics_are_watched_until_a_signal(self):
        self.send("1")
        watch = self.start(*("stats -w --interval 10ms --json".split()), stdout=subprocess.PIPE)
        self.assertEqual(json.loads(watch.stdout.readline())["total"]["ready"], 1)
        self.send("2")
        while json.loads(watch.stdout.readline())["total"]["ready"] != 2:
            pass
        watch.terminate()
        self.assertEqual(watch.wait(PATIENCE_S), 0)


if __name__ == "__main__":
    unittest.main()
