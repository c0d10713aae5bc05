"""The process that attacks: it carries out `ATTACKS` at once, and counts what each of them got."""

import asyncio
import collections
import contextlib
import os
import signal

from attacks import ATTACKS
from bad_requests import BAD_REQUESTS, accepted_bad_requests, answer_of_bad_request
from http_client import make_target, request, skip_answer
from large_content import store_large_content

ADDRESS = "127.0.0.66"
TOKEN = "attack-secret"
PAUSE_SECONDS = 0.05  # before an attacker who was refused comes again

# What an attack got, besides the statuses of answers:
SENT = "sent"  # all that it wanted to send, and the connection was held
ENDED = "ended"  # the server ended the connection, or would not have it


class Tally:
    """What one attack got, from all of its connections."""

    def __init__(self, attack, strength):
        self.attack = attack
        self.attackers = max(1, round(attack.many * strength))
        self.outcomes = collections.Counter()
        self.begun = set()  # the numbers of those that have begun
        self.heard = set()  # the numbers of those that got anything
        self.unexpected = {}  # an answer for each status that shows that the attack is amiss

    def is_proven(self):
        """The server has done or refused what an attacker wanted, so the attack is no mistake."""
        return any(self.outcomes[outcome] for outcome in (SENT, 503, *self.attack.answers))

    def under_way(self):
        """Every attacker has begun: the server may let few of them through."""
        return len(self.begun) == self.attackers and self.is_proven()

    def is_expected(self, status):
        return status in (503, *self.attack.answers, *self.attack.ends)

    def __str__(self):
        got = ", ".join(f"{count} {outcome}" for outcome, count in
                        sorted(self.outcomes.items(), key=lambda item: str(item[0])))
        return f"{len(self.heard)} of {self.attackers} attackers: {got or 'nothing'}"


class Attacker:
    """One connection at a time, and a new one when the server ends it."""

    def __init__(self, target, tally, number, strength):
        self.target = target
        self.tally = tally
        self.number = number
        self.strength = strength
        self.token = TOKEN
        self.owner = f"01940000-0000-7000-8000-666{number:09d}"

    def note(self, outcome):
        self.tally.outcomes[outcome] += 1
        self.tally.heard.add(self.number)

    async def hear(self, reader):
        """The status of the answer."""
        status, beginning = await skip_answer(reader)
        self.note(status)
        if not self.tally.is_expected(status):
            self.tally.unexpected.setdefault(status, beginning)
        return status

    @contextlib.asynccontextmanager
    async def connection(self, **options):
        reader, writer = await self.target.connect(ADDRESS, **options)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def send_and_hold(self, *pieces):
        """Sends the pieces, and holds the connection until the server has had enough."""
        async with self.connection() as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            self.note(SENT)
            await self.hear(reader)
            await reader.read()

    async def send_and_be_deaf(self, data, seconds):
        """Sends a request, and reads no answer."""
        async with self.connection(receive_buffer=4_096) as (_, writer):
            writer.transport.pause_reading()
            writer.write(data)
            await writer.drain()
            self.note(SENT)
            await asyncio.sleep(seconds)

    async def ask_for_ever(self, *requests):
        """Each is what `request` takes: a method, a path and perhaps more."""
        data = [request(*asked) for asked in requests]
        async with self.connection() as (reader, writer):
            while True:
                for asked in data:
                    writer.write(asked)
                    await writer.drain()
                    if await self.hear(reader) == 503:
                        await asyncio.sleep(PAUSE_SECONDS)

    async def go_on(self):
        self.tally.begun.add(self.number)
        while True:
            try:
                await self.tally.attack.run(self)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                self.note(ENDED)
            await asyncio.sleep(PAUSE_SECONDS)


class Report:
    """What became of the attacks."""

    def __init__(self, strength, names):
        self.tallies = {name: Tally(ATTACKS[name], strength) for name in names}
        self.problems = []

    def not_under_way(self):
        return [name for name, tally in self.tallies.items() if not tally.under_way()]

    def finish(self):
        """A line for each attack, which of them are not under way, and what else was wrong."""
        problems = list(self.problems)
        for name, tally in self.tallies.items():
            problems += [f"{name}: was answered {status}: {beginning}"
                         for status, beginning in tally.unexpected.items()]
        lines = [f"{name}: {tally}" for name, tally in self.tallies.items()]
        return lines, self.not_under_way(), problems


async def send_bad_request(target, name, data, report):
    """Again and again, until the server takes one."""
    while True:
        with contextlib.suppress(OSError):
            answer = await answer_of_bad_request(target, ADDRESS, data)
            if answer and not answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 503")):
                report.problems.append(f"{name} was answered {answer!r}")
                return
        await asyncio.sleep(PAUSE_SECONDS)


async def attack_until_stopped(target, strength, waiting_for, report):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    report.problems += await accepted_bad_requests(target, ADDRESS)
    await store_large_content(target, ADDRESS, strength)
    tallies = report.tallies.values()
    tasks = [asyncio.create_task(Attacker(target, tally, 0, strength).go_on()) for tally in tallies]
    # Once there are too many connections, the server may end some kinds as soon as they come.
    while not stopped.is_set() and not all(tally.is_proven() for tally in tallies):
        await asyncio.sleep(0.1)
    tasks += [asyncio.create_task(Attacker(target, tally, number, strength).go_on())
              for tally in tallies for number in range(1, tally.attackers)]
    tasks += [asyncio.create_task(send_bad_request(target, name, data, report))
              for name, data in BAD_REQUESTS.items()]
    ended = asyncio.gather(*tasks)  # only by a mistake of an attack
    while not stopped.is_set() and not ended.done():
        waiting_for.value = len(report.not_under_way())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stopped.wait(), 0.2)
    if ended.done():
        ended.result()


def attack_in_process(port, certificate, strength, names, waiting_for, reports):
    """Attacks until SIGTERM, then sends its report. Meanwhile `waiting_for` is how many attacks are
    not under way yet."""
    async def attack():
        report = Report(strength, names or ATTACKS)
        await attack_until_stopped(make_target(port, certificate), strength, waiting_for, report)
        reports.send(report.finish())
        os._exit(0)  # All connections end at once, without thousands of farewells.

    asyncio.run(attack())
