"""What clients can do to a server. Each attack is a coroutine, and begins anew when it ends."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import typing

from http_client import head, request
from large_content import claimed_keys, key

JSON = {"Content_Type": "application/json"}
LINES = {"Content_Type": "application/x-ndjson", "Transfer_Encoding": "chunked"}
NAMES = 100_000  # at full strength
NAMES_PER_REQUEST = 500
PATTERNS = 256  # as many as a claim may have
TIMES = 200  # that a call names the same key
PIPELINED = 300  # requests that are sent at once
DEAF_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Attack:
    """Any attack may be refused with 503. An answer that is not listed here is a mistake of the
    attack, or of the server."""
    many: int  # connections at full strength
    run: typing.Callable  # (attacker) -> coroutine, for each connection
    answers: tuple = (200,)  # to what was asked
    ends: tuple = ()  # how the server ends what takes too long


def unfinished_webhook(attacker):
    return attacker.send_and_hold(
        head("POST", "/v1/webhooks/shop", Content_Length=1_000_000, **JSON), b"x" * 999_000)


def webhook_that_is_not_there(attacker):
    return attacker.send_and_hold(
        head("POST", "/v1/webhooks/nobody", Content_Length=1_000_000, **JSON), b"x" * 999_000)


def unfinished_line(attacker):
    piece = b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n"
    return attacker.send_and_hold(head("POST", "/v1/messages", attacker.token, **LINES),
                                  *itertools.repeat(piece, 31))


def short_lines_with_long_key(attacker):
    """Fewer than are stored at once, so that they are kept until more come; each gets the key."""
    lines = b'{"messageId":"1","topic":"attack.short","payload":1}\n' * 499
    return attacker.send_and_hold(
        head("POST", "/v1/messages", attacker.token, Idempotency_Key="k" * 1_000, **LINES),
        b"%x\r\n" % len(lines) + lines + b"\r\n")


async def long_array_with_long_key(attacker):
    """None is stored, because the last item is wrong. A refusal comes while it is being sent."""
    items = [{"messageId": "1", "topic": "attack.short", "payload": 1}] * 9_999 + [{}]
    asked = request("POST", "/v1/messages", attacker.token, items,
                    {"Idempotency_Key": "k" * 1_000})
    async with attacker.connection() as (reader, writer):
        while True:
            writer.write(asked)
            attacker.note("sent")
            await writer.drain()
            await attacker.hear(reader)


def unfinished_body(attacker):
    return attacker.send_and_hold(
        head("POST", "/v1/messages", attacker.token, Content_Length=70_000, **JSON), b" " * 65_000)


def unfinished_head(attacker):
    return attacker.send_and_hold(b"GET /v1/stats HTTP/1.1\r\nHost: local")


async def idle_connection(attacker):
    async with attacker.connection() as (reader, writer):
        writer.write(head("GET", "/healthz"))
        await attacker.hear(reader)
        await reader.read()


async def head_byte_by_byte(attacker):
    async with attacker.connection() as (_, writer):
        for byte in b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            attacker.note("sent")
            await asyncio.sleep(0.05)


async def request_cut_off(attacker):
    async with attacker.connection() as (_, writer):
        writer.write(head("POST", "/v1/messages", attacker.token, Content_Length=100, **JSON))
        writer.write(b'{"source":')
        await writer.drain()
        attacker.note("sent")


def deaf_reader(attacker):
    """Some wait until the server gives up, others come again sooner."""
    return attacker.send_and_be_deaf(
        request("GET", "/v1/messages?payloads=true", attacker.token), 5 + attacker.number % 30)


async def deaf_reader_of_small_answers(attacker):
    """Without a token, and with all the places that there are."""
    asked = head("GET", "/healthz") * PIPELINED
    async with attacker.connection(receive_buffer=4_096) as (_, writer):
        writer.transport.pause_reading()
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(asked)
        attacker.note("sent")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(writer.drain(), DEAF_SECONDS)
        await asyncio.sleep(DEAF_SECONDS)


def deaf_reader_of_events(attacker):
    return attacker.send_and_be_deaf(request("GET", "/v1/events", attacker.token), 60)


def same_message_often(attacker):
    return attacker.ask_for_ever(("POST", "/v1/messages/find", attacker.token,
                                  {"keys": [key("large")] * TIMES, "payloads": True}))


def same_result_often(attacker):
    return attacker.ask_for_ever(("POST", "/v1/keys/begin", attacker.token,
                                  {"items": [{"key": "attack:large"}] * TIMES}))


def list_of_payloads(attacker):
    return attacker.ask_for_ever(("GET", "/v1/messages?payloads=true", attacker.token))


def list_of_headers(attacker):
    return attacker.ask_for_ever(("GET", "/v1/messages?topic=attack.headers", attacker.token))


def long_history(attacker):
    return attacker.ask_for_ever(("GET", "/v1/dead/attack/edited/history", attacker.token))


def groups_of_the_dead(attacker):
    return attacker.ask_for_ever(("GET", "/v1/dead/groups?limit=1000", attacker.token))


def statistics_of_many_topics(attacker):
    return attacker.ask_for_ever(("GET", "/v1/stats", attacker.token))


def claim_of_large_messages(attacker):
    """They are given back, so that others can claim them."""
    released = [claimed | {"verdict": "Release"} for claimed in claimed_keys(attacker.strength)]
    return attacker.ask_for_ever(
        ("POST", "/v1/messages/claim", attacker.token,
         {"owner": attacker.owner, "topics": {"only": ["attack.claimed"]}, "waitSeconds": 5}),
        ("POST", "/v1/messages/settle", attacker.token,
         {"owner": attacker.owner, "items": released}))


async def waiting_claim(attacker, topics=("nothing",)):
    async with attacker.connection() as (reader, writer):
        while True:
            writer.write(request("POST", "/v1/messages/claim", attacker.token,
                                 {"owner": attacker.owner, "topics": {"only": topics},
                                  "waitSeconds": 60}))
            await writer.drain()
            attacker.note("sent")
            await attacker.hear(reader)
            await asyncio.sleep(0.05)


def claim_of_many_patterns(attacker):
    return waiting_claim(attacker, [f"nothing.{i}.*" for i in range(PATTERNS)])


def flood_of_probes(attacker):
    return attacker.ask_for_ever(("GET", "/readyz"))


async def flood_of_names(attacker):
    """A topic, a partition and a key of its own for each message."""
    async with attacker.connection() as (reader, writer):
        for first in range(0, round(NAMES * attacker.strength), NAMES_PER_REQUEST):
            lines = b"".join(
                json.dumps({"source": "attack", "messageId": f"name-{i}", "topic": f"names.{i}",
                            "partitionKey": f"p{i}", "payload": ""}).encode() + b"\n"
                for i in range(first, first + NAMES_PER_REQUEST))
            writer.write(head("POST", "/v1/messages", attacker.token, **LINES))
            writer.write(b"%x\r\n" % len(lines) + lines + b"\r\n0\r\n\r\n")
            await writer.drain()
            await attacker.hear(reader)


ATTACKS = {
    "unfinished webhooks": Attack(291, unfinished_webhook, answers=(), ends=(408,)),
    "webhooks that are not there": Attack(40, webhook_that_is_not_there, answers=(404,)),
    "unfinished lines": Attack(1_000, unfinished_line, answers=(), ends=(408,)),
    "short lines with a long key": Attack(300, short_lines_with_long_key, answers=(), ends=(408,)),
    "long arrays with a long key": Attack(32, long_array_with_long_key, answers=(400,)),
    "unfinished bodies": Attack(4_000, unfinished_body, answers=(), ends=(408,)),
    "unfinished heads": Attack(4_200, unfinished_head, answers=(), ends=(408,)),
    "heads byte by byte": Attack(80, head_byte_by_byte, answers=()),
    "requests cut off": Attack(40, request_cut_off, answers=()),
    "idle connections": Attack(3_000, idle_connection),
    "readers that do not read": Attack(200, deaf_reader),
    "readers that do not read small answers": Attack(4_200, deaf_reader_of_small_answers),
    "events that nobody reads": Attack(64, deaf_reader_of_events),
    "one message, asked for 200 times": Attack(20, same_message_often),
    "one result, asked for 200 times": Attack(20, same_result_often),
    "lists of payloads": Attack(20, list_of_payloads),
    "lists of headers": Attack(20, list_of_headers),
    "long histories": Attack(20, long_history),
    "groups of the dead": Attack(32, groups_of_the_dead),
    "statistics of many topics": Attack(20, statistics_of_many_topics),
    "claims of large messages": Attack(20, claim_of_large_messages),
    "waiting claims": Attack(1_200, waiting_claim),
    "claims of many patterns": Attack(150, claim_of_many_patterns),
    "a flood of probes": Attack(20, flood_of_probes),
    "a flood of names": Attack(1, flood_of_names),
}
