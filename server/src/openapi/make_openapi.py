#!/usr/bin/env python3
"""Writes openapi.json, the description of the service, from what is said here and in schemas.py.

  make_openapi.py           writes it
  make_openapi.py --check   fails when it is not what this would write

Most calls exist six times: for the default store and for a named one, for the inbox, the outbox and
the deliveries. They are described once; the copies say `x-variant-of`.
"""

import json
import pathlib
import re
import sys

import schemas
from schemas import ref

COLUMNS = 98
HERE = pathlib.Path(__file__).resolve().parent
OWNER = "01940000-0000-7000-8000-000000000001"
LEASE = "01940000-0000-7000-8000-0000000000aa"
TIME = "2026-01-31T08:15:30.250Z"
ORDER = {"source": "shop", "messageId": "order-1"}
HISTORY = {
    "attempt": 0, "deliveries": 1, "lapses": 0, "duplicates": 0, "contentVersion": 1,
    "firstSeen": TIME, "lastSeen": TIME}
CONTENT = {
    "topic": "order.paid", "payload": {"amount": 4200},
    "headers": {"contentType": "application/json"}, "priority": 0}
RECORD = {**ORDER, **CONTENT, "status": "Done", "state": "Done", **HISTORY, "finishedAt": TIME}
GROUP = "order.paid:00ff17a92c03d5e8"
COUNTS = {
    "seen": 0, "waiting": 2,
    "waitingFor": {"content": 0, "partition": 0, "due": 0, "backoff": 2, "pause": 0}, "ready": 3,
    "leased": 1, "done": 120, "dead": 0}

TAGS = [
    ("Messages", "Take messages in, hand them to workers, and settle what they did."),
    ("Dead letters", "Look at what failed for good, bring it back, or remove it."),
    ("Operation", "See and steer a queue."),
    ("Endpoints", "Where the messages of the outbox go."),
    ("Inbox contract", "One idempotency key a call: begin under a lease, mark, release, ask."),
    ("Keys", "The same in batches, with results, failures and retention."),
    ("Webhooks", "Signed requests of other services become messages."),
    ("Service", "Health, metrics, and this description."),
]

# What a caller may have to tell apart; whatever else can happen has the same form.
PROBLEMS = {
    "400": "BadRequest", "401": "Unauthorized", "403": "Forbidden", "404": "NotFound",
    "413": "TooLarge", "415": "UnsupportedMediaType", "502": "OutcomeUnknown", "503": "TryLater",
    "default": "Problem"}
RESPONSES = {
    "BadRequest": "The request is not acceptable; the detail says where and why.",
    "Unauthorized": "A token is missing or not valid.",
    "Forbidden": "The token does not have the scope, or a page of another origin calls.",
    "NotFound": "There is no such store, message or path.",
    "TooLarge": "The body has more bytes than the server takes.",
    "UnsupportedMediaType": "The Content-Type is not one that this call takes, or the body has a "
    "Content-Encoding.",
    "OutcomeUnknown": "The store was lost while it committed; repeating the request is safe.",
    "TryLater": "Too much to do, the store cannot be reached, or the server stops; try again.",
    "BadSignature": "The signature or its time is missing or wrong; nothing was stored.",
    "NotReady": "Do not send requests here for now.",
    "Problem": "Anything else that went wrong; the code says what.",
}


def parameter(name, where, schema, description, **more):
    return {"name": name, "in": where, "description": description, "schema": schema, **more}


def path_parameter(name, description, **more):
    schema = {"type": "string", "minLength": 1}
    return parameter(name, "path", schema, description, required=True, **more)


def query(name, schema, description):
    return parameter(name, "query", schema, description)


PARAMETERS = {
    "store": path_parameter("store", "The store's name, as configured.", example="main"),
    "source": path_parameter("source", "Escaped: a slash is %2F.", example="shop"),
    "messageId": path_parameter("messageId", "Escaped: a slash is %2F.", example="order-1"),
    "key": path_parameter("key", "All that is left of the path; escapes count.", example="k:1"),
    "name": path_parameter("name", "The webhook's name, as configured.", example="stripe"),
    "endpoint": path_parameter("endpoint", "The endpoint's name.", example="crm"),
    "path": path_parameter("path", "What its templates call `{path}`.", example="acme"),
    "idempotencyKey": parameter(
        "Idempotency-Key", "header", {"type": "string", "minLength": 1, "maxLength": 1024},
        "The message's id when the body has none; of an array, followed by `/` and the place. "
        "The first message under it stands: another topic or payload is a conflict (409; of many "
        "`Rejected`), unless the message says both its source and its id, or `onHashMismatch` says "
        "what to do."),
    "traceparent": parameter(
        "traceparent", "header", {"type": "string"},
        "W3C trace context: becomes a header of the message."),
    "onHashMismatch": query(
        "onHashMismatch", {"enum": ["Warn", "Reject", "Quarantine", "KeepFirst"], "type": "string"},
        "When a known id comes with other content. Left out: as the server is configured. "
        "KeepFirst rejects another topic or payload, and lets nothing of the message change."),
    "onDead": query(
        "onDead", {"enum": ["Keep", "Revive"], "type": "string"},
        "When a dead message comes again. Left out: as the server is configured. Revive, where the "
        "server keeps them dead, needs the scope operate and leaves an audit entry."),
    "missingHash": query(
        "missingHash", {"enum": ["Sha256", "Leave"], "type": "string", "default": "Sha256"},
        "What to do when there is no hash."),
    "missingHeaders": query(
        "missingHeaders", {"enum": ["Stamp", "Leave"], "type": "string", "default": "Stamp"},
        "Of the outbox: whether to set the headers messageId, timestamp and partitionKey where the "
        "message has none."),
}
LIST_PARAMETERS = {
    "status": query(
        "status", {"type": "string", "examples": ["Dead", "Done,Dead"]},
        "Seen, Processing, Done or Dead; several with commas between."),
    "state": query(
        "state", {"type": "string", "examples": ["Ready", "Waiting,Leased"]},
        "Seen, Waiting, Ready, Leased, Done or Dead; several with commas between."),
    "waitingFor": query(
        "waitingFor", {"type": "string", "examples": ["Backoff", "Due,Backoff"]},
        "Of the waiting messages only those that wait for this: Content, Partition, Due, Backoff "
        "or Pause. Without `state` only waiting ones."),
    "topic": query("topic", {"type": "string"}, "A topic, or the beginning of one and `*`."),
    "exactTopic": query("exactTopic", {"type": "string"}, "A topic that may end in `*`."),
    "ofSource": query("source", {"type": "string"}, "Of this source."),
    "ofMessageId": query("messageId", {"type": "string"}, "With this id, of any source."),
    "partitionKey": query("partitionKey", {"type": "string"}, "Of this partition."),
    "errorContains": query("errorContains", {"type": "string"}, "Part of the last error."),
    **{name: query(name, {"type": "string", "format": "date-time"}, description)
       for name, description in [
           ("firstSeenFrom", "First seen at this time or later."),
           ("firstSeenUntil", "First seen before this time."),
           ("finishedFrom", "Done or dead since this time or later."),
           ("finishedUntil", "Done or dead before this time."),
           ("expiresAfter", "Only messages that expire later than that, or never.")]},
    "order": query(
        "order",
        {"enum": ["OldestFirst", "NewestFirst"], "type": "string", "default": "OldestFirst"},
        "By when the key was first stored."),
    "payloads": query(
        "payloads", {"type": "boolean", "default": False}, "Whether to answer payloads, too."),
    "maxBytes": query(
        "maxBytes", {"type": "integer", "minimum": 1, "maximum": 67108864},
        "The page ends before its payloads and headers have more bytes; the first message comes "
        "whatever its size. At most 16 MiB are answered."),
    "after": query("after", {"type": "string"}, "`next` of the page before."),
    "limit": query(
        "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        "At most so many on a page."),
}
STORES_PARAMETERS = {
    "storeNamed": query("name", {"type": "string"}, "Only the store of this name."),
    **{name: LIST_PARAMETERS[name] for name in ("after", "limit")},
}

STATS_PARAMETERS = {
    "after": LIST_PARAMETERS["after"],
    "topicLimit": query(
        "limit", {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1000},
        "At most so many topics."),
}


ENDPOINT_PARAMETERS = {
    "knownVersion": query(
        "knownVersion", {"type": "integer", "minimum": 0},
        "The version of the last list: while it is the same, the endpoints are left out."),
    "secrets": query(
        "secrets", {"enum": ["LeaveOut", "Include"], "type": "string", "default": "LeaveOut"},
        "Whether to answer the secrets, as they were given."),
}
AUDIT_PARAMETERS = {
    "actor": query("actor", {"type": "string"}, "By this token or user."),
    "action": query(
        "action", {"type": "string", "examples": ["Purge", "Revive,ReviveEdited"]},
        "Revive, ReviveEdited, Purge, Cleanup, Pause, Resume, SetPolicy, Cancel, RunNow, "
        "Reschedule or Delete; several with commas between."),
    "from": query("from", {"type": "string", "format": "date-time"}, "At this time or later."),
    "until": query("until", {"type": "string", "format": "date-time"}, "Before this time."),
    "after": LIST_PARAMETERS["after"],
    "limit": LIST_PARAMETERS["limit"],
}


GROUP_PARAMETERS = {
    **{name: LIST_PARAMETERS[name] for name in LIST_PARAMETERS
       if name not in ("status", "state", "waitingFor", "order", "payloads", "maxBytes", "after",
                       "limit")},
    "groupLimit": query(
        "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1000},
        "At most so many groups; the rest is counted together."),
    "maxMessages": query(
        "maxMessages", {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 100000},
        "Looks at so many at most, those that were stored last."),
}


def content(schema, example, media_type="application/json"):
    return {media_type: {"schema": schema, **({} if example is None else {"example": example})}}


class Call:
    """One operation: what it takes and what it answers."""

    def __init__(self, method, path, identifier, tag, scope, summary, description=""):
        self.method, self.path, self.identifier = method, path, identifier
        self.operation = {"operationId": identifier, "tags": [tag], "summary": summary}
        if description:
            self.operation["description"] = description
        self.operation["parameters"] = [
            self.path_reference(name) for name in re.findall(r"{(\w+)\*?}", path)]
        self.take_scope(scope)
        self.responses = {}
        self.body = None

    @staticmethod
    def path_reference(name):
        return {"$ref": f"#/components/parameters/{name}"}

    def takes(self, schema, example, required=True):
        self.body = {"required": required, "content": content(ref(schema), example)}
        return self

    def takes_content(self, media_types):
        self.body = {"required": True, "content": media_types}
        return self

    def with_parameters(self, names):
        self.operation["parameters"] += [self.path_reference(name) for name in names]
        return self

    def answers(self, schema, example, description="Done."):
        self.responses["200"] = {
            "description": description, "content": content(ref(schema), example)}
        return self

    def answers_content(self, media_types, description):
        self.responses["200"] = {"description": description, "content": media_types}
        return self

    def problem(self, status, name):
        self.responses[status] = {"$ref": f"#/components/responses/{name}"}
        return self

    def finished(self):
        """The operation as the document has it."""
        statuses = ["400", "503", "default"]
        if self.scope != "open":
            statuses += ["401", "403", "502"]
        if "{" in self.path:
            statuses.append("404")
        if self.body:
            statuses += ["413", "415"]
        operation = dict(self.operation)
        if self.body:
            operation["requestBody"] = self.shared("requestBodies") or self.body
        responses = dict(self.responses)
        responses["200"] = self.shared("responses") or responses["200"]
        for status in statuses:
            responses.setdefault(status, {"$ref": f"#/components/responses/{PROBLEMS[status]}"})
        operation["responses"] = dict(sorted(responses.items()))
        if not operation["parameters"]:
            del operation["parameters"]
        return operation

    def shared(self, kind):
        """A reference to what a variant has in common with its original."""
        original = self.operation.get("x-variant-of")
        return {"$ref": f"#/components/{kind}/{original}"} if original else None

    def take_scope(self, scope):
        self.scope = scope
        self.operation["security"] = [] if scope == "open" else [{"bearer": [scope]}]
        if scope != "open":
            self.operation["x-scope"] = scope

    def variant(self, prefix, suffix, summary_end, more_parameters=()):
        """The same call behind another path."""
        other = Call.__new__(Call)
        other.__dict__.update(self.__dict__)
        other.path = self.path.replace("/v1", prefix, 1)
        other.identifier = self.identifier + suffix
        other.operation = {
            **self.operation,
            "operationId": other.identifier,
            "summary": self.operation["summary"] + summary_end,
            "x-variant-of": self.operation.get("x-variant-of", self.identifier),
            "parameters": [self.path_reference(name) for name in more_parameters]
            + self.operation["parameters"]}
        return other


def post(path, identifier, tag, scope, summary, description=""):
    return Call("post", path, identifier, tag, scope, summary, description)


def get(path, identifier, tag, scope, summary, description=""):
    return Call("get", path, identifier, tag, scope, summary, description)


def message_calls():
    new_message = {**ORDER, "topic": "order.paid", "payload": {"amount": 4200}}
    enqueued = {**ORDER, "status": "Accepted"}
    yield post(
        "/v1/messages", "enqueueMessages", "Messages", "produce", "Enqueue messages",
        "One message as an object; several in one transaction as an array; any number as NDJSON, "
        "one a line, stored as they come in. The answer comes once they are durable. A message "
        "that came before is recognised by its source and id.",
    ).with_parameters(
        ["idempotencyKey", "traceparent", "onHashMismatch", "onDead", "missingHash",
         "missingHeaders"]
    ).takes_content({
        **content({"oneOf": [
            ref("NewMessage"),
            {"type": "array", "items": ref("NewMessage"), "maxItems": 10000}]}, new_message),
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "A NewMessage a line."},
            "example": json.dumps(new_message) + "\n"},
    }).answers_content(
        content({"anyOf": [ref("Enqueued"), ref("EnqueuedBatch"), ref("IntakeSummary")]}, enqueued),
        "What became of the message, of each of the array, or of the lines together.")
    yield post(
        "/v1/messages/claim", "claimMessages", "Messages", "consume", "Claim messages",
        "Hands out messages, each to one worker at a time. With `waitSeconds` the answer waits for "
        "a message.",
    ).takes("Claim", {"owner": OWNER, "limit": 10, "waitSeconds": 5}, required=False).answers(
        "Claimed",
        {"owner": OWNER,
         "messages": [{**ORDER, **CONTENT, **HISTORY, "delivery": 1, "lockedUntil": TIME,
                       "eligibleAt": TIME, "maxAttempts": 10}]},
        "The messages; none when there was none in time.")
    yield post(
        "/v1/messages/settle", "settleMessages", "Messages", "consume", "Settle deliveries",
        "Says what became of claimed messages. What fails with Abandon comes back later; with its "
        "last attempt it is dead: the tenth, unless the worker says otherwise.",
    ).takes(
        "Settlements", {"owner": OWNER, "items": [{**ORDER, "delivery": 1, "verdict": "Ack"}]}
    ).answers(
        "Settled", {"results": [{"status": "Settled"}]},
        "For each item, whether it took effect, and what became of the message.")
    yield post(
        "/v1/messages/extend", "extendLeases", "Messages", "consume", "Extend leases",
    ).takes(
        "Extensions", {"owner": OWNER, "items": [{**ORDER, "delivery": 1, "leaseSeconds": 60}]}
    ).answers("Extended", {"results": [{"status": "Extended", "lockedUntil": TIME}]})
    yield post(
        "/v1/messages/observe", "observeMessages", "Messages", "produce", "Observe keys",
        "For those who handle messages themselves: records that a key was seen, and answers what "
        "was known of it.",
    ).takes("Observations", {"items": [ORDER]}).answers("Observed", {"results": [
        {"state": "Unseen"}]})
    yield post(
        "/v1/messages/mark", "markMessages", "Messages", "consume", "Mark messages",
        "For those who handle messages themselves: sets the state and ends any lease. Already: "
        "it was done, or dead, before. A death by a mark is logged and counted like any other.",
    ).takes("Marks", {"items": [{**ORDER, "as": "Dead", "error": "no such account"}]}).answers(
        "Marked", {"results": ["Marked"]})
    yield post(
        "/v1/messages/find", "findMessages", "Messages", "read", "Find messages by their keys",
        "The answer ends before its messages have more than 16 MiB. Then `truncated` is true, and "
        "there are results for the first keys only: ask again for the others.",
    ).takes("MessageKeys", {"keys": [ORDER]}).answers(
        "Found", {"results": [RECORD]},
        "For each key, or for the first ones, the message, or null.")
    yield post(
        "/v1/messages/reap", "reapLeases", "Messages", "consume", "End lapsed leases",
        "The server does it by itself now and then; a claim takes lapsed messages anyway.",
    ).takes("Reap", {"limit": 1000}, required=False).answers(
        "Reaped", {"released": 2, "buried": 0, "deaths": []})
    yield post(
        "/v1/messages/next-due", "nextDue", "Messages", "consume",
        "Tell when the next message can be claimed",
    ).takes("Topics", {"topics": {"only": ["order.*"]}}, required=False).answers(
        "NextDue", {"dueAt": TIME})
    yield get(
        "/v1/messages/{source}/{messageId}", "getMessage", "Messages", "read", "Get a message",
    ).answers("MessageRecord", RECORD)


def operator_calls():
    dead = {**RECORD, "status": "Dead", "state": "Dead", "lastError": "the amount is negative"}
    yield get(
        "/v1/messages", "listMessages", "Operation", "read", "List messages",
        "A page of those that match every condition.",
    ).with_parameters(LIST_PARAMETERS).answers("MessagePage", {"messages": [RECORD], "next": "b2s"})
    yield post(
        "/v1/messages/count", "countMessages", "Operation", "read", "Count messages",
    ).takes(
        "CountRequest", {"filter": {"state": ["Ready"], "topic": "order.*"}}, required=False
    ).answers("Count", {"count": 7})
    yield post(
        "/v1/messages/cancel", "cancelMessages", "Operation", "operate", "Cancel messages",
        "Messages that are waiting, ready or leased go dead with the error `cancelled` and the "
        "reason. The settlement of a worker that has one is LeaseLost.",
    ).takes("Act", {"keys": [ORDER], "reason": "sent by mistake"}).answers(
        "Acted", {"results": ["Changed"], "count": 1})
    yield post(
        "/v1/messages/run-now", "runMessagesNow", "Operation", "operate", "Run messages now",
        "Messages that wait for their due time or a backoff become ready. None passes another one "
        "of its partition.",
    ).takes("Act", {"filter": {"waitingFor": ["Backoff"]}}).answers(
        "Acted", {"count": 7, "dryRun": False})
    yield post(
        "/v1/messages/reschedule", "rescheduleMessages", "Operation", "operate",
        "Reschedule messages",
        "Messages that are waiting or ready get another due time; a backoff ends.",
    ).takes("Reschedule", {"keys": [ORDER], "dueAt": TIME}).answers(
        "Acted", {"results": ["Changed"], "count": 1})
    yield post(
        "/v1/messages/delete", "deleteMessages", "Operation", "operate", "Delete messages",
        "Removes messages in any state but leased, and with them the memory of their keys.",
    ).takes("Act", {"filter": {"state": ["Ready"], "topic": "test"}, "dryRun": True}).answers(
        "Acted", {"count": 7, "dryRun": True})
    yield get(
        "/v1/stats", "getStats", "Operation", "read", "Count by topic and state",
        "Topics in their order, messages without one first. The total is that of all pages.",
    ).with_parameters(STATS_PARAMETERS).answers(
        "QueueStats",
        {"total": COUNTS, "topics": [{"topic": "order.paid", **COUNTS}],
         "next": "Om9yZGVyLnBhaWQ="})
    yield get(
        "/v1/workers", "listWorkers", "Operation", "read", "List who claims messages",
        "Those that hold messages or have claimed within the last hour, by name.",
    ).answers("Workers", {"workers": [
        {"name": "shop-3:8124", "leases": 12, "since": TIME, "lastSeen": TIME}]})
    yield get("/v1/dead", "listDead", "Dead letters", "read", "List dead messages").with_parameters(
        LIST_PARAMETERS).answers("MessagePage", {"messages": [dead]})
    yield get(
        "/v1/dead/groups", "groupDead", "Dead letters", "read", "Group dead messages",
        "By topic and by the kind of error: numbers, ids, times and quoted parts do not count.",
    ).with_parameters(GROUP_PARAMETERS).answers("DeadGroups", {
        "groups": [{
            "group": GROUP, "topic": "order.paid", "fingerprint": GROUP[-16:],
            "error": "the amount <n> is negative", "count": 3,
            "firstAt": "2026-01-31T08:15:30.250Z", "lastAt": "2026-01-31T09:00:00.000Z",
            "sample": ORDER}],
        "messages": 3, "others": 0, "complete": True, "fingerprintVersion": 1})
    yield get(
        "/v1/dead/{source}/{messageId}", "getDead", "Dead letters", "read", "Get a dead message",
    ).answers("MessageRecord", dead)
    yield post(
        "/v1/dead/revive", "reviveDead", "Dead letters", "operate", "Bring dead messages back",
        "Those with these keys, those that match a filter, those of a group, or all; at once or at "
        "a rate.",
    ).takes("Revive", {"keys": [ORDER], "reason": "the bug is fixed"}).answers(
        "Revived", {"results": ["Revived"], "count": 1})
    yield post(
        "/v1/dead/purge", "purgeDead", "Dead letters", "operate", "Remove dead messages",
        "And with them the memory of their keys.",
    ).takes("Purge", {"filter": {"topic": "order.*"}, "dryRun": True}).answers(
        "Purged", {"count": 7, "dryRun": True})
    policy = {"topic": "order.*", "maxAttempts": 5, "backoffSeconds": 2}
    yield get(
        "/v1/topics/policies", "listPolicies", "Operation", "read", "List the rules for topics",
        "What a rule does not say is as the next wider one has it, in the end as the queue does by "
        "itself.",
    ).answers("TopicPolicies", {"policies": [policy]})
    yield post(
        "/v1/topics/policies", "setPolicy", "Operation", "operate", "Change the rule for topics",
        "It holds for everybody who works on the store. What is left out stays as it is, null "
        "clears a field, so that it is as the next wider rule has it; the answer is the whole "
        "rule.",
    ).takes("TopicPolicyCall", {**policy, "rate": None, "reason": "the bank is slow"}).answers(
        "TopicPolicy", policy)
    yield post(
        "/v1/topics/policies/remove", "removePolicy", "Operation", "operate",
        "Remove the rule for topics", "They go by the next wider one from now on.",
    ).takes("TopicCall", {"topic": "order.*"}).answers("Count", {"count": 1})
    yield get(
        "/v1/topics/paused", "listPaused", "Operation", "read", "List paused topics",
    ).answers("Paused", {"paused": ["order.*"]})
    yield post(
        "/v1/topics/pause", "pauseTopic", "Operation", "operate", "Pause topics",
        "Nobody is handed any of them until they are resumed; it is a rule of the store.",
    ).takes("TopicCall", {"topic": "order.*"}).answers("Paused", {"paused": ["order.*"]})
    yield post(
        "/v1/topics/resume", "resumeTopic", "Operation", "operate", "Resume topics",
    ).takes("TopicCall", {"topic": "order.*"}).answers("Paused", {"paused": []})
    yield post(
        "/v1/cleanup", "cleanUp", "Operation", "operate", "Remove what is past its retention",
        "The server does it by itself now and then.",
    ).takes("Cleanup", {"doneRetentionSeconds": 86400}, required=False).answers(
        "CleanedUp", {"doneRemoved": 120, "deadRemoved": 0, "keysRemoved": 3})


def edit_calls():
    edited = {**ORDER, "payload": {"amount": 4200}}
    yield post(
        "/v1/dead/edit", "editDead", "Dead letters", "operate",
        "Bring dead messages back with other payloads",
        "Each is claimable with its new payload; headers stay, the hash is made anew. What it had "
        "is kept: see its history.",
    ).takes("Edit", {"items": [edited], "reason": "the amount was negative"}).answers(
        "Edited", {"results": ["Revived"], "count": 1})
    yield get(
        "/v1/dead/{source}/{messageId}/history", "getHistory", "Dead letters", "read",
        "Get the payloads that a message had before it was edited",
        "Oldest first; also of a message that is not dead any more.",
    ).answers("History", {"contents": [
        {"contentVersion": 1, "payload": "{\"amount\": -4200}", "replacedAt": TIME,
         "replacedBy": "ops", "reason": "the amount was negative"}]})


def audit_calls():
    entry = {
        "id": 7, "actor": "ops", "action": "Revive", "part": "Inbox",
        "subject": "{\"filter\":{\"topic\":\"order.*\"}}", "reason": "the bug is fixed",
        "begunAt": TIME, "finishedAt": TIME, "status": "Succeeded", "changed": 3}
    yield get(
        "/v1/audit", "listAudit", "Operation", "read", "List who changed what, the newest first",
        "Every change by an operator through this server, with the "
        "name of the token. Entries are written before the change; one without a status is under "
        "way, or the server did not live to tell.",
    ).with_parameters(AUDIT_PARAMETERS).answers("AuditPage", {"entries": [entry], "next": "n7"})
    yield post(
        "/v1/audit/cleanup", "cleanUpAudit", "Operation", "operate",
        "Remove old entries of the trail",
    ).takes("AuditCleanup", {"retentionSeconds": 31536000}, required=False).answers(
        "Count", {"count": 3})


def endpoint_calls():
    endpoint = {
        "name": "crm", "url": "https://crm.example.com/hooks", "topics": ["order.*"],
        "secrets": ["literal:whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "allowPrivate": False,
        "disableAfterSeconds": 432000}
    shown = {name: value for name, value in endpoint.items() if name != "secrets"}
    yield get(
        "/v1/endpoints", "listEndpoints", "Endpoints", "operate", "List the endpoints",
        "Each message of the outbox goes to every endpoint of which a topic matches: as one "
        "delivery, a message whose topic is the endpoint's name, under `/v1/deliveries`. What "
        "holds for attempts, limits and pauses is the rule for that topic there.",
    ).with_parameters(ENDPOINT_PARAMETERS).answers(
        "EndpointList", {"version": 7, "endpoints": [{**shown, "failingSince": TIME}]})
    yield post(
        "/v1/endpoints", "saveEndpoint", "Endpoints", "operate", "Add or change an endpoint",
        "All of it is set, but for the secrets, which stay when they are left out; those of the "
        "server's environment and files only while the URL stays.",
    ).takes("EndpointSave", {**endpoint, "reason": "new customer"}).answers(
        "EndpointSaved", {"status": "Created"})
    yield post(
        "/v1/endpoints/remove", "removeEndpoint", "Endpoints", "operate", "Remove an endpoint",
        "What is under way to it fails for good.",
    ).takes("EndpointRemoval", {"name": "crm"}).answers("Count", {"count": 1})
    yield post(
        "/v1/endpoints/note", "noteEndpoint", "Endpoints", "operate",
        "Enable or disable an endpoint, or note how it works",
        "Whoever delivers notes failures and successes; operators enable and disable.",
    ).takes("EndpointNote", {"name": "crm", "event": "Enabled", "reason": "it is back"}).answers(
        "EndpointNoted", {"known": True, "changed": True})
    yield post(
        "/v1/endpoints/{endpoint}/test", "testEndpoint", "Endpoints", "operate",
        "Send an endpoint a message of its own",
        "With the topic `oncebox.test`, to this endpoint alone. The answer is the delivery's key: "
        "what has become of it, `GET /v1/deliveries/messages/{source}/{messageId}` tells.",
    ).takes("EndpointTest", {"waitSeconds": 10}, required=False).answers(
        "EndpointTested",
        {"source": "oncebox", "messageId": "01940000-0000-7000-8000-000000000001@crm"})
    yield post(
        "/v1/endpoints/{endpoint}/resend", "resendToEndpoint", "Endpoints", "operate",
        "Send an endpoint again what it missed",
        "Under the same ids: all that was sent since a time and has not expired, what failed for "
        "good, or one message. It ends early when the caller goes.",
    ).takes("EndpointResend", {"failed": True, "perSecond": 50, "reason": "it is back"}).answers(
        "EndpointResent", {"count": 7, "underWay": 1, "notWanted": 0, "dryRun": False})


def key_calls():
    key = {"key": "payments:worker:1"}
    held = {**key, "leaseId": LEASE}
    inbox, keys = "Inbox contract", "Keys"
    yield post("/v1/inbox/try-begin", "tryBegin", inbox, "consume", "Begin a key").takes(
        "TryBegin", {**key, "owner": "worker-1", "leaseSeconds": 60}).answers(
        "TriedBegin",
        {"status": "Acquired", "leaseId": LEASE, "expiresAt": TIME, "leaseUntil": TIME})
    yield post(
        "/v1/inbox/mark-processed", "markProcessed", inbox, "consume", "Mark a key as processed",
    ).takes("MarkProcessed", held).answers("MarkedProcessed", {"status": "Processed"})
    yield post("/v1/inbox/release", "releaseKey", inbox, "consume", "Give a key back").takes(
        "Release", held).answers("Released", {"status": "Released"})
    yield get("/v1/inbox/{key*}", "getKey", inbox, "read", "Ask about a key").answers(
        "KeyState", {"status": "Processed", "attempts": 1, "firstSeen": TIME, "lastSeen": TIME})

    yield post(
        "/v1/keys/begin", "beginKeys", keys, "consume", "Begin keys",
        "The answer has at most 16 MiB of results. Each that does not fit any more is left out, "
        "and `resultLeftOut` says so: ask for it with `/v1/keys/find`.",
    ).takes(
        "KeyBegins", {"items": [{**key, "leaseSeconds": 60}]}).answers(
        "KeysBegun", {"results": [
            {"status": "Acquired", "leaseId": LEASE, "leaseUntil": TIME, "attempts": 1}]})
    yield post(
        "/v1/keys/complete", "completeKeys", keys, "consume", "Complete keys, with their results",
    ).takes("KeyCompletions", {"items": [{**held, "resultBase64": "b2s="}]}).answers(
        "KeysCompleted", {"results": [{"status": "Processed"}]})
    yield post("/v1/keys/fail", "failKeys", keys, "consume", "Mark keys as failed").takes(
        "KeyFailures", {"items": [{**held, "error": "no such account"}]}).answers(
        "KeysFailed", {"results": [{"status": "Failed"}]})
    yield post("/v1/keys/release", "releaseKeys", keys, "consume", "Give keys back").takes(
        "KeyReleases", {"items": [held]}).answers(
        "KeysReleased", {"results": [{"status": "Released"}]})
    yield post("/v1/keys/extend", "extendKeys", keys, "consume", "Extend leases of keys").takes(
        "KeyExtensions", {"items": [{**held, "leaseSeconds": 60}]}).answers(
        "KeysExtended", {"results": [{"status": "Extended", "leaseUntil": TIME}]})
    yield post("/v1/keys/find", "findKeys", keys, "read", "Find keys").takes(
        "KeyNames", {"keys": [key["key"]]}).answers(
        "KeysFound", {"results": [
            {**key, "status": "Processed", "attempts": 1, "firstSeen": TIME, "lastSeen": TIME,
             "keepUntil": TIME}]}, "For each the key, or null.")
    yield post("/v1/keys/cleanup", "cleanUpKeys", keys, "operate", "Remove forgotten keys").takes(
        "Limit", {"limit": 1000}, required=False).answers("Count", {"count": 3})


def service_calls():
    yield get(
        "/v1/stores", "listStores", "Operation", "read", "List the stores",
        "The default one first, the others by name, each as it was when it was last asked. One "
        "that is asked for by its name is asked now.",
    ).with_parameters(STORES_PARAMETERS).answers(
        "Stores", {"stores": [
            {"name": "main", "default": True, "state": "Open", "health": "Healthy",
             "capabilities": {"durable": True, "sharedBetweenProcesses": True,
                              "joinsCallerTransaction": True, "notifies": True, "nativeTtl": False,
                              "maxPayloadBytes": 16777216}}],
                   "discovery": {"health": "Healthy"}})
    yield post(
        "/v1/stores/refresh", "refreshStores", "Operation", "operate",
        "Look for stores that have come or gone",
        "What is new is opened, what is gone is let go; those that are down are tried again. When "
        "the list of stores cannot be had, the stores stay as they are. Those who call this at the "
        "same time share one look.",
    ).answers("RefreshedStores", {"added": ["acme"], "removed": [], "reopened": [], "down": []})
    samples = {"at": TIME, "queues": [
        {"store": "main", "queue": "inbox", "stats": {"total": COUNTS, "topics": []}}]}
    yield get(
        "/v1/events", "watchEvents", "Operation", "read", "Watch the queues",
        "Server-sent events: `stats` every second or so with the statistics of every queue (of "
        "many stores: of those in use, and of some others by turns), and "
        "`work` when a queue has something new to hand out.",
    ).answers_content(
        {"text/event-stream": {
            "schema": {"type": "string"},
            "example": f"event: stats\ndata: {json.dumps(samples)}\n\n"}},
        "A stream without an end.")
    for path, operation, more in [
            ("/v1/webhooks/{name}", "receiveWebhook", ""),
            ("/v1/webhooks/{name}/{path}", "receiveWebhookAt",
             " For a webhook whose templates use `{path}`, as for the store of a tenant.")]:
        yield post(
            path, operation, "Webhooks", "open", "Receive a webhook",
            "Checks the signature by the webhook's scheme (Stripe, GitHub, Standard Webhooks, HMAC "
            "or none), names the message by the webhook's templates, and answers once it is "
            "durable. A duplicate is a success, too." + more,
        ).with_parameters(["traceparent"]).takes_content(
            {"*/*": {"schema": {"description": "Kept byte by byte."}}}
        ).answers(
            "Enqueued", {"source": "stripe", "messageId": "evt_1", "status": "Accepted"}
        ).problem("401", "BadSignature")
    yield get(
        "/v1/health", "reportHealth", "Service", "read", "Tell what should not be so",
        "What the watchdog found when it last looked at the stores.",
    ).answers("HealthReport", {
        "status": "Degraded",
        "detail": "main/inbox: a message has been ready for 20 min; 1 are ready and 0 are being "
                  "handled",
        "stores": [{"name": "main", "health": "Healthy"}],
        "findings": [{
            "code": "ReadyLate", "store": "main", "queue": "inbox", "topic": "order.paid",
            "since": "2026-01-31T08:15:30.250Z",
            "detail": "a message has been ready for 20 min; 1 are ready and 0 are being handled"}]})
    yield get("/healthz", "getHealth", "Service", "open", "Tell that the process lives").answers(
        "Health", {"status": "ok"})
    yield get(
        "/readyz", "getReadiness", "Service", "open", "Tell whether requests should come here",
    ).answers("Readiness", {"status": "ready"}).problem("503", "NotReady")
    yield get("/metrics", "getMetrics", "Service", "read", "For Prometheus").answers_content(
        {"text/plain": {"schema": {"type": "string"}}}, "Text format 0.0.4.")
    yield get("/openapi.json", "getOpenapi", "Service", "open", "This document").answers_content(
        {"application/json": {"schema": {"type": "object"}}}, "OpenAPI 3.1.")
    for path, identifier, media_type, summary in [
            ("/docs", "getDocs", "text/html", "This document as a page"),
            ("/docs/app.js", "getDocsScript", "text/javascript", "The script of the page"),
            ("/docs/style.css", "getDocsStyle", "text/css", "The style of the page")]:
        yield get(path, identifier, "Service", "open", summary).answers_content(
            {media_type: {"schema": {"type": "string"}}}, "The file.")


def all_calls():
    for call in [*message_calls(), *operator_calls(), *edit_calls()]:
        outbox = call.variant("/v1/outbox", "InOutbox", ", of the outbox")
        deliveries = call.variant("/v1/deliveries", "InDeliveries", ", of the deliveries")
        if call.scope == "produce":
            deliveries.take_scope("operate")
        for queue_call in (call, outbox, deliveries):
            yield queue_call
            yield queue_call.variant("/v1/stores/{store}", "OfStore", ", of a store", ["store"])
    for call in [*key_calls(), *audit_calls(), *endpoint_calls()]:
        yield call
        yield call.variant("/v1/stores/{store}", "OfStore", ", of a store", ["store"])
    yield from service_calls()


def problem_response(description):
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": ref("Problem")}}}


def version():
    text = (HERE.parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"VERSION (\d+\.\d+\.\d+)", text)[1]


def document():
    paths, bodies = {}, {}
    responses = {name: problem_response(description) for name, description in RESPONSES.items()}
    for call in all_calls():
        path = call.path.replace("*}", "}")
        paths.setdefault(path, {})[call.method] = call.finished()
        original = call.operation.get("x-variant-of")
        if original:
            responses[original] = call.responses["200"]
            bodies.update({original: call.body} if call.body else {})
    responses["TryLater"]["headers"] = {"Retry-After": {
        "description": "Seconds.", "schema": {"type": "integer"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Oncebox",
            "version": version(),
            "summary": "A deduplicating inbox, outbox and work queue.",
            "description": (
                "Every outcome that can be expected is 200 with a word that says which; everything "
                "else is a problem with a stable code. Names are camelCase, times RFC 3339 in UTC, "
                "durations seconds. A member that a request may not have is an error; answers may "
                "get more members. Paths without a store mean the default one."),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": description} for name, description in TAGS],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {
                "type": "http", "scheme": "bearer",
                "description": "A token of the server's configuration. Its scopes are produce, "
                "consume, read and operate (which includes read). Without configured tokens "
                "everybody may do everything."}},
            "parameters": {**PARAMETERS, **LIST_PARAMETERS, **AUDIT_PARAMETERS,
                           **ENDPOINT_PARAMETERS, **STORES_PARAMETERS,
                           **STATS_PARAMETERS, **GROUP_PARAMETERS},
            "requestBodies": bodies,
            "responses": responses,
            "schemas": schemas.SCHEMAS,
        },
    }


def pretty(value, indent=""):
    """JSON in which whatever fits on a line has one: half the size of one member a line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= COLUMNS or not isinstance(value, (dict, list)) or not value:
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {pretty(one, deeper)}" for name, one in value.items()]
        opening, closing = "{", "}"
    else:
        members = [pretty(member, deeper) for member in value]
        opening, closing = "[", "]"
    inside = f",\n{deeper}".join(members)
    return f"{opening}\n{deeper}{inside}\n{indent}{closing}"


def main():
    text = pretty(document()) + "\n"
    target = HERE / "openapi.json"
    if "--check" not in sys.argv:
        target.write_text(text, encoding="utf-8")
    elif target.read_text(encoding="utf-8") != text:
        sys.exit("openapi.json is not up to date: run server/src/openapi/make_openapi.py")


if __name__ == "__main__":
    main()
