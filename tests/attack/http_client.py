"""HTTP/1.1 by hand, so that a client can do what a good one would never do."""

import asyncio
import dataclasses
import json
import socket
import ssl

PIECE_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True)
class Target:
    port: int
    tls: ssl.SSLContext | None = None

    async def connect(self, address, receive_buffer=None):
        """From an address of this machine, as which the server sees the client."""
        client = socket.socket()
        try:
            client.setblocking(False)
            if receive_buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            client.bind((address, 0))
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
            return await asyncio.open_connection(
                sock=client, ssl=self.tls, server_hostname="localhost" if self.tls else None)
        except BaseException:
            client.close()
            raise


def make_target(port, certificate):
    return Target(port, ssl.create_default_context(cafile=certificate) if certificate else None)


def head(method, path, token=None, **fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def request(method, path, token=None, body=None, fields=None):
    data = b"" if body is None else json.dumps(body).encode()
    fields = dict(fields or {})
    if data:
        fields["Content_Type"] = "application/json"
    return head(method, path, token, Content_Length=len(data), **fields) + data


async def ask(reader, writer, method, path, token=None, body=None):
    """The status and the content of the answer: what its JSON means, or its text."""
    writer.write(request(method, path, token, body))
    await writer.drain()
    status, fields = await read_head(reader)
    content = await reader.readexactly(int(fields.get("content-length", "0")))
    if "json" in fields.get("content-type", ""):
        return status, json.loads(content)
    return status, content.decode()


async def read_head(reader):
    """The status, and the fields by their names in lower case."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split(" ")[1]), fields


async def skip_answer(reader):
    """The status of an answer and how its content begins; the rest is read and forgotten."""
    status, fields = await read_head(reader)
    left = int(fields.get("content-length", "0"))
    beginning = b""
    while left > 0:
        piece = await reader.read(min(left, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        beginning = beginning or piece[:500]
        left -= len(piece)
    return status, beginning
