"""Clients that use the server as it is meant to be used. They are served, whatever others do."""

import asyncio
import contextlib
import uuid

from http_client import ask

ADDRESS = "127.0.0.1"
TOKEN = "honest-secret"
ROUNDS_PER_CONNECTION = 5
# Far above what a request takes, and far below the deadlines by which the server ends attacks.
ANSWER_SECONDS_MAX = 10
REFUSED_SECONDS = 1  # as Retry-After says
IDLE_SECONDS = 30  # less than limits.idle_timeout


class NotServed(Exception):
    """Says which call of which client, and why."""


class Ledger:
    """What the server told the clients; shared by all of them."""

    def __init__(self):
        self.stopped = asyncio.Event()
        self.accepted = 0
        self.settled = 0
        self.refused = 0
        self.cut_off = False
        self.slowest_seconds = 0.0
        self.slowest_call = "none"

    def keep_time(self, call, seconds):
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest_call = seconds, call


class HonestClient:
    """One connection at a time, and a new one every few rounds."""

    rounds_min = 10  # without which it was starved
    comes_again = False  # after a 503, within the time of one answer

    def __init__(self, target, ledger, name):
        self.target = target
        self.ledger = ledger
        self.name = name
        self.owner = str(uuid.uuid4())
        self.rounds = 0
        self.call = "nothing"  # what it waits for, or did last
        self.reader = self.writer = None

    async def run(self):
        """Until it is stopped; then what is under way is finished."""
        while not self.ledger.stopped.is_set():
            async with self.connection():
                for _ in range(ROUNDS_PER_CONNECTION):
                    if not self.ledger.stopped.is_set():
                        await self.go_round()
                        self.rounds += 1

    async def go_round(self):
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def connection(self):
        self.reader, self.writer = await self.in_time("connect", self.target.connect(ADDRESS))
        try:
            yield
        finally:
            self.writer.transport.abort()

    async def connect_again(self):
        self.writer.transport.abort()
        self.reader, self.writer = await self.target.connect(ADDRESS)

    async def ask(self, method, path, body=None, token=TOKEN):
        async def ask_until_taken():
            while True:
                status, answer = await ask(self.reader, self.writer, method, path, token, body)
                if status != 503 or not self.comes_again:
                    return status, answer
                self.ledger.refused += 1
                await asyncio.sleep(REFUSED_SECONDS)
                await self.connect_again()  # The refusal of a body ends the connection.

        status, answer = await self.in_time(f"{method} {path}", ask_until_taken())
        if status != 200:
            raise NotServed(f"{self.name}: {self.call} was answered {status}: {answer}")
        return answer

    async def in_time(self, call, answer):
        self.call = call
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            return await asyncio.wait_for(answer, ANSWER_SECONDS_MAX)
        except asyncio.TimeoutError:
            raise NotServed(f"{self.name}: {call} took more than {ANSWER_SECONDS_MAX} s") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise NotServed(f"{self.name}: {call} was cut off: {error!r}") from None
        finally:
            self.ledger.keep_time(f"{self.name}: {call}", loop.time() - begun)

    async def send(self, message_id, topic, payload):
        answer = await self.ask("POST", "/v1/messages", {
            "source": "honest", "messageId": message_id, "topic": topic, "payload": payload})
        if answer["status"] != "Accepted":
            raise NotServed(f"{self.name}: a new message was answered {answer}")
        self.ledger.accepted += 1

    async def claim(self, topic, payload, **options):
        """At most one message of a topic in which every message has the same payload."""
        claimed = await self.ask("POST", "/v1/messages/claim", {
            "owner": self.owner, "topics": {"only": [topic]}, "limit": 1, **options})
        for message in claimed["messages"]:
            if message["payload"] != payload:
                raise NotServed(f"{self.name}: message {message['messageId']} came back changed")
        return claimed["messages"]

    async def settle(self, messages):
        await self.ask("POST", "/v1/messages/settle", {
            "owner": self.owner, "items": [
                {name: message[name] for name in ("source", "messageId", "delivery")}
                | {"verdict": "Ack"} for message in messages]})
        self.ledger.settled += len(messages)


class Worker(HonestClient):
    """Sends a message, gets one back, perhaps of another worker, and says that it is done."""

    topic = "honest"
    payload = "x" * 1_000

    async def go_round(self):
        await self.send(f"{self.name}-{self.rounds}", self.topic, self.payload)
        messages = await self.claim(self.topic, self.payload)
        if messages:
            await self.settle(messages)


class WorkerWithLargePayloads(Worker):
    """May be told to come again: callers with tokens, of whom some attack, share the memory."""

    comes_again = True
    topic = "honest.large"
    payload = "x" * 1_000_000
    rounds_min = 5


class WaitingWorker(HonestClient):
    """Has a claim wait, and gets the message that is sent to it meanwhile."""

    rounds_min = 5

    async def go_round(self):
        topic = f"honest.{self.name}"
        sender = Sender(self.target, self.ledger, f"{self.name}, sender")
        async with sender.connection():
            claim = asyncio.create_task(
                self.claim(topic, "wake up", waitSeconds=ANSWER_SECONDS_MAX - 1))
            try:
                await asyncio.sleep(0.1)
                await sender.send(f"{self.name}-{self.rounds}", topic, "wake up")
            finally:
                messages = await claim
        if not messages:
            raise NotServed(f"{self.name}: its claim waited in vain")
        await self.settle(messages)


class Sender(HonestClient):
    """For a client that needs a second connection."""


class Prober(HonestClient):
    """An orchestrator that asks, without a token, whether the server is ready."""

    async def go_round(self):
        for path in ("/readyz", "/healthz"):
            await self.ask("GET", path, token=None)
        await asyncio.sleep(0.1)


class IdleClient(HonestClient):
    """Keeps a connection on which it asks little; the connection is there when it is needed."""

    rounds_min = 1

    async def run(self):
        async with self.connection():
            while not self.ledger.stopped.is_set():
                await self.go_round()
                self.rounds += 1
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.ledger.stopped.wait(), IDLE_SECONDS)
            await self.go_round()

    async def go_round(self):
        await self.ask("POST", "/v1/messages/count", {"filter": {"topic": "honest"}})


KINDS = {
    "worker": (64, Worker),
    "worker with large payloads": (2, WorkerWithLargePayloads),
    "waiting worker": (4, WaitingWorker),
    "prober": (2, Prober),
    "idle client": (4, IdleClient),
}


def make_clients(target, ledger):
    return [make(target, ledger, f"{name} {number}")
            for name, (many, make) in KINDS.items() for number in range(many)]


async def work_honestly(target, attackers, seconds, seconds_max):
    """The ledger, and what was wrong. It goes on for some seconds in which all attacks are under
    way, and until every client has had its rounds. It ends sooner when a client is not served or
    when the attackers have ended, and at the latest after `seconds_max`."""
    ledger = Ledger()
    clients = make_clients(target, ledger)
    tasks = [asyncio.create_task(client.run()) for client in clients]
    now = asyncio.get_running_loop().time
    latest = now() + seconds_max
    end = latest
    done = set()
    while not done and now() < latest and not attackers.have_ended():
        if end == latest and attackers.are_under_way():
            end = now() + seconds
        if now() > end and not starved(clients):
            break
        done, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_EXCEPTION)
    problems = starved(clients) if now() > latest else []
    ledger.stopped.set()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, NotServed):
            problems.append(str(result))
            ledger.cut_off = True
        elif result is not None:
            raise result
    return ledger, problems


def starved(clients):
    return [f"{client.name} was starved: it had {client.rounds} of {client.rounds_min} rounds, and "
            f"its last call is {client.call}"
            for client in clients if client.rounds < client.rounds_min]
