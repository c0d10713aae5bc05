"""Requests that two parsers could read in two ways, or that none should take."""

# Each is sent whole on a connection of its own; the server answers 4xx.
BAD_REQUESTS = {
    "both lengths": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/stats HTTP/1.1\r\nHost: a\r\n\r\n",
    "two lengths": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
    b"Content-Length: 6\r\n\r\nhello!",
    "bad chunk": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/json\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "huge header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "huge length": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: 99999999999999\r\n\r\n{",
    "negative length": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not a request at all\r\n\r\n",
    "a lone line feed in a name": b"GET /v1/stats HTTP/1.1\r\nHost\n: a\r\n\r\n",
    "deep nesting": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: 20000\r\n\r\n" + b"[" * 20_000,
    "a broken escape": b"GET /v1/inbox/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
}


async def answer_of_bad_request(target, address, data):
    """The first line of the answer; nothing if the server ends the connection without one."""
    reader, writer = await target.connect(address)
    try:
        writer.write(data)
        return await reader.readline()
    finally:
        writer.transport.abort()


async def accepted_bad_requests(target, address):
    """What is wrong with the answers of a server that has nothing else to do."""
    answers = {name: await answer_of_bad_request(target, address, data)
               for name, data in BAD_REQUESTS.items()}
    return [f"{name} was answered {answer!r}" for name, answer in answers.items()
            if not answer.startswith(b"HTTP/1.1 4")]
