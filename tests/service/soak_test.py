#!/usr/bin/env python3
"""A server under bad company: a thousand idle connections, slow, broken and malicious clients, and
64 busy ones among them that must not notice.

  soak_test.py PROGRAM [MESSAGES_PER_CONNECTION]

Proves that every message that was answered is stored once, that no good request fails, that bad
ones are refused without harm, and that memory stays bounded (KIN-07).
"""

import asyncio
import json
import pathlib
import resource
import sys

from running_server import running_server

sys.path.append(str(pathlib.Path(__file__).parent.parent / "attack"))
from bad_requests import BAD_REQUESTS  # noqa: E402

IDLE_CONNECTIONS = 1_000
BUSY_CONNECTIONS = 64
RESIDENT_KIB_MAX = 160 * 1024


class Soak:
    def __init__(self, port, messages_per_connection):
        self.port = port
        self.messages_per_connection = messages_per_connection
        self.accepted = 0
        self.problems = []
        self.busy_done = asyncio.Event()

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def request(self, reader, writer, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
        if data:
            head += "Content-Type: application/json\r\n"
        writer.write(head.encode() + b"\r\n" + data)
        await writer.drain()
        status, content = await read_response(reader)
        return status, json.loads(content) if content else None

    async def busy(self, number):
        reader, writer = await self.connect()
        for i in range(self.messages_per_connection):
            message = {"source": "soak", "messageId": f"{number}-{i}", "topic": "soak",
                       "payload": {"number": i}}
            status, answer = await self.request(reader, writer, "POST", "/v1/messages", message)
            if status != 200 or answer["status"] != "Accepted":
                self.problems.append(f"message {number}-{i}: {status} {answer}")
                break
            self.accepted += 1
        writer.close()

    async def idle(self):
        reader, writer = await self.connect()
        status, _ = await self.request(reader, writer, "GET", "/healthz")
        if status != 200:
            self.problems.append(f"an idle connection was answered {status}")
        return reader, writer

    async def slow(self):
        """Sends a request byte by byte until the server has had enough."""
        while not self.busy_done.is_set():
            reader, writer = await self.connect()
            answer = asyncio.create_task(reader.read())
            try:
                for byte in b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Slow: " + b"x" * 1_000_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    done, _ = await asyncio.wait([answer, self.until_done()], timeout=0.01,
                                                 return_when=asyncio.FIRST_COMPLETED)
                    if done:
                        break
            except ConnectionError:
                pass
            writer.close()
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    def until_done(self):
        return asyncio.ensure_future(self.busy_done.wait())

    async def broken(self):
        """Goes away in the middle of a request, again and again."""
        while not self.busy_done.is_set():
            _, writer = await self.connect()
            writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json"
                         b"\r\nContent-Length: 100\r\n\r\n{\"source\":")
            await writer.drain()
            writer.transport.abort()
            await asyncio.sleep(0)

    async def malicious(self, name, request):
        rounds = 0
        while rounds == 0 or not self.busy_done.is_set():
            rounds += 1
            reader, writer = await self.connect()
            try:
                writer.write(request)
                await writer.drain()
                first = await asyncio.wait_for(reader.readline(), timeout=60)
                if first and not first.startswith(b"HTTP/1.1 4"):
                    self.problems.append(f"{name} was answered {first!r}")
                    return
            except ConnectionError:
                pass
            finally:
                writer.close()

    async def run(self):
        idle = [await self.idle() for _ in range(IDLE_CONNECTIONS)]
        company = [asyncio.create_task(self.slow()) for _ in range(8)]
        company += [asyncio.create_task(self.broken()) for _ in range(4)]
        company += [asyncio.create_task(self.malicious(name, request))
                    for name, request in BAD_REQUESTS.items()]
        await asyncio.gather(*(self.busy(number) for number in range(BUSY_CONNECTIONS)))
        self.busy_done.set()
        await asyncio.gather(*company)

        reader, writer = idle[0]
        status, stats = await self.request(reader, writer, "GET", "/v1/stats")
        for _, other in idle:
            other.close()
        return status, stats


async def read_response(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    content = await reader.readexactly(int(fields.get("content-length", "0")))
    return int(lines[0].split(" ")[1]), content


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("the server has ended")


def main():
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # However long it takes, those who do nothing are not closed for it.
    with running_server(sys.argv[1], "--set", "limits.request_timeout=2s",
                        "--set", "limits.idle_timeout=1h") as server:
        soak = Soak(server.port, messages)
        status, stats = asyncio.run(soak.run())
        resident = resident_kib(server.pid)

    problems = list(soak.problems)
    stored = stats["total"]["ready"] if status == 200 else None
    if stored != soak.accepted or soak.accepted != BUSY_CONNECTIONS * messages:
        problems.append(f"{soak.accepted} messages were accepted, and {stored} are stored")
    if resident > RESIDENT_KIB_MAX:
        problems.append(f"the server has {resident} KiB, at most {RESIDENT_KIB_MAX} are expected")
    print(f"{soak.accepted} messages accepted, {resident} KiB resident")
    for problem in problems:
        print("failed:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
