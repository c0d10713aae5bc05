"""What the attackers ask for: messages, results and histories that are as large as can be."""

import base64

from http_client import ask

TOKEN = "prepare-secret"
PAYLOAD_BYTES = 7_900_000  # as much as fits into a body
CLAIMED_BYTES = 2_000_000
CLAIMED_MESSAGES = 40  # at full strength
MESSAGES_WITH_HEADERS = 40  # at full strength; as many are dead
DEAD_GROUPS = 1_000  # at full strength
LONGEST = "\U0001f4ec" * 250  # nearly the longest topic that may be, at four bytes a character
RESULT_BYTES = 1_000_000
VERSIONS = 2  # as many as are kept of this size
HEADERS = {f"header-{number}": "x" * 8_192 for number in range(64)}


def key(message_id):
    return {"source": "attack", "messageId": message_id}


def message(message_id, **fields):
    return key(message_id) | {"topic": f"attack.{message_id.split('-')[0]}"} | fields


def claimed_keys(strength):
    """Of the messages with the topic attack.claimed."""
    many = max(8, round(CLAIMED_MESSAGES * strength))
    return [key(f"claimed-{number}") for number in range(many)]


async def store_large_content(target, address, strength):
    reader, writer = await target.connect(address)

    async def post(path, body):
        status, answer = await ask(reader, writer, "POST", path, TOKEN, body)
        assert status == 200, f"{path} was answered {status}: {answer}"
        return answer

    await post("/v1/messages", message("large", payload="x" * PAYLOAD_BYTES))
    for claimed in claimed_keys(strength):
        await post("/v1/messages", message(claimed["messageId"], payload="x" * CLAIMED_BYTES))
    for number in range(max(8, round(MESSAGES_WITH_HEADERS * strength))):
        await post("/v1/messages", message(f"headers-{number}", payload="", headers=HEADERS))
        await post("/v1/messages", message(f"dead-{number}", payload="", headers=HEADERS))
        await bury(post, [key(f"dead-{number}")])
    await store_dead_groups(post, strength)
    await store_result(post)
    await store_history(post)
    writer.close()


async def bury(post, keys):
    await post("/v1/messages/mark",
               {"items": [one | {"as": "Dead", "error": "not good enough"} for one in keys]})


async def store_dead_groups(post, strength):
    """Messages of which each is a group of its own, with names as long as can be."""
    numbers = range(max(100, round(DEAD_GROUPS * strength)))
    await post("/v1/messages", [key(f"group-{number}") | {"topic": f"{LONGEST}{number}",
                                                          "payload": ""} for number in numbers])
    await bury(post, [key(f"group-{number}") for number in numbers])


async def store_result(post):
    begun = await post("/v1/keys/begin", {"items": [{"key": "attack:large"}]})
    await post("/v1/keys/complete", {"items": [
        {"key": "attack:large", "leaseId": begun["results"][0]["leaseId"],
         "resultBase64": base64.b64encode(b"x" * RESULT_BYTES).decode()}]})


async def store_history(post):
    """A message whose payload was edited again and again."""
    await post("/v1/messages", message("edited", payload="x" * PAYLOAD_BYTES))
    for version in range(VERSIONS):
        await bury(post, [key("edited")])
        edited = await post("/v1/dead/edit", {"items": [
            key("edited") | {"payload": str(version) * PAYLOAD_BYTES}], "reason": "once more"})
        assert edited["results"] == ["Revived"], edited
