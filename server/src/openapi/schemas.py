"""The shapes of requests and answers, as JSON Schemas by name."""


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def text(description="", **more):
    return {"type": "string", **({"description": description} if description else {}), **more}


def name(description):
    return text(description, minLength=1, maxLength=255)


def words(*values, description=""):
    return text(description, enum=list(values))


def time(description=""):
    return text(description, format="date-time")


def uuid(description=""):
    return text(description, format="uuid")


def base64(description=""):
    return text(description, contentEncoding="base64")


def integer(description="", **more):
    return {"type": "integer", **({"description": description} if description else {}), **more}


def count(description=""):
    return integer(description, minimum=0)


def seconds(description, **more):
    return {"type": "number", "description": f"{description} In seconds.", **more}


def boolean(description):
    return {"type": "boolean", "description": description}


def array(items, **more):
    return {"type": "array", "items": items, **more}


def answer(required, **properties):
    """An object in an answer: more members may come with later versions."""
    return {"type": "object", "required": required, "properties": properties}


def request(required, **properties):
    """An object in a request: a member that is not listed is an error."""
    shape = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shape, "required": required} if required else shape


BATCH = {"maxItems": 10000}

KEY = {
    "source": name("The system that the message comes from."),
    "messageId": name("The id that the source gave it."),
}
HASH = text(
    "A digest of the content and the name of its algorithm: by it other content under a known id "
    "is noticed.",
    pattern="^[a-z0-9-]{1,32}:[0-9a-f]{2,128}$",
    examples=["sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
)
PAYLOAD = {
    "payload": {
        "description": "Any JSON value but null. A string stands for its own text, any other value "
        "for the bytes with which it was written; it comes back as it was sent. The JSON of a "
        "request is nested at most 32 levels deep; a string may hold what is nested deeper.",
    },
    "payloadBase64": base64("Instead of `payload`: bytes that are no text."),
}
CONTENT = {
    "topic": name("What the message is about; chooses its handler."),
    **PAYLOAD,
    "headers": {
        "type": "object",
        "description": "Short texts that travel with the message; at most 64.",
        "maxProperties": 64,
        "additionalProperties": text(maxLength=8192),
    },
    "hash": HASH,
    "priority": integer("Higher ones are handed out first.", minimum=-100, maximum=100),
    "partitionKey": name("Messages with the same key are handled in the order they came."),
    "dueAt": time("Not handed out before this time."),
    "expiresAt": time("Not handed out from this time on: then it is dead."),
}
HISTORY = {
    "attempt": count("Failed deliveries."),
    "deliveries": count("How often it was handed out."),
    "lapses": count(
        "Leases that ended without a settlement: they ran out, or the message was cancelled or "
        "marked as dead meanwhile."),
    "duplicates": count("How often it came again."),
    "contentVersion": count("+1 each time that new content comes."),
    "firstSeen": time(),
    "lastSeen": time(),
    "lastError": text(),
}
HISTORY_REQUIRED = [
    "attempt", "deliveries", "lapses", "duplicates", "contentVersion", "firstSeen", "lastSeen"]
DELIVERY = {
    **KEY,
    "owner": uuid("Who holds it; left out: the one beside the items."),
    "delivery": count("The number of the claim; left out: any of this owner."),
}
STATUS_WORDS = ["Seen", "Processing", "Done", "Dead"]
STATE_WORDS = ["Seen", "Waiting", "Ready", "Leased", "Done", "Dead"]
WAITING_WORDS = ["Content", "Partition", "Due", "Backoff", "Pause"]
FILTER = {
    "status": array(words(*STATUS_WORDS)),
    "state": array(words(*STATE_WORDS)),
    "waitingFor": array(
        words(*WAITING_WORDS),
        description="Of the waiting messages only these; without `state` only waiting ones."),
    "topic": {"$ref": "#/components/schemas/TopicPattern"},
    **KEY,
    "partitionKey": name("Of this partition."),
    "errorContains": text("Part of the last error."),
    "firstSeenFrom": time(),
    "firstSeenUntil": time(),
    "finishedFrom": time("When it became done or dead."),
    "finishedUntil": time(),
    "expiresAfter": time("Only messages that expire later than that, or never."),
}
ENQUEUE_WORDS = [
    "Accepted", "Duplicate", "Updated", "Superseding", "DuplicateDone", "DuplicateDead", "Revived",
    "Rejected", "Quarantined"]
TOPIC_COUNTS = {
    "topic": name("Absent for the total, and for keys that were only observed."),
    "seen": count(),
    "waiting": count("Cannot be claimed yet."),
    "waitingFor": answer(
        [word.lower() for word in WAITING_WORDS],
        content=count("Marked as processing, but never enqueued."),
        partition=count("Behind another message of their partition."),
        due=count("For their due time."),
        backoff=count("For the end of the delay after a failure or a release."),
        pause=count("For the end of a pause; apart from that they are ready.")),
    "ready": count("Can be claimed now."),
    "leased": count(),
    "done": count(),
    "dead": count(),
    "oldestReadyAt": time(),
    "oldestDeadAt": time(),
}
IDEMPOTENCY_KEY = text("Compared byte by byte, never trimmed.", minLength=1, maxLength=1024)
LEASE_ID = uuid("What `begin` answered.")
KEY_LEASE = seconds("How long the lease lasts.", minimum=1, maximum=300, default=60)
RETENTION = seconds("How long the key is kept; left out: as the server is configured.",
                    exclusiveMinimum=0)
DEAD_CALL = {
    "keys": array(ref("MessageKey"), **BATCH),
    "filter": ref("Filter"),
    "group": {**text("A group of the dead, as listed; a filter beside it leaves a part of it."),
              "pattern": "^(.+:)?[0-9a-f]{16}$"},
    "all": {"type": "boolean", "const": True, "description": "All of the dead."},
    "limit": integer("At most so many of those that match.", minimum=1, default=10000),
    "dryRun": boolean("Only count."),
    "reason": text("For the audit trail; of a revival it is kept with the message, too.",
                   maxLength=2048),
}
ACT_CALL = {
    "keys": array(ref("MessageKey"), **BATCH),
    "filter": {**ref("Filter"),
               "description": "Beside keys: only those that match it when they are changed."},
    "all": {"type": "boolean", "const": True, "description": "All to which it applies."},
    "limit": integer("At most so many of those that match.", minimum=1, default=10000),
    "dryRun": boolean("Only count."),
    "reason": text("For the audit trail; of a cancellation it is the message's error, too.",
                   maxLength=2048),
}
ONE_WAY = [
    {"required": ["keys"]},
    {"required": ["filter"], "not": {"required": ["keys"]}},
    {"required": ["all"]}]
ONE_SELECTION = [
    {"required": ["keys"]},
    {"required": ["filter"], "not": {"required": ["group"]}},
    {"required": ["all"]},
    {"required": ["group"], "not": {"required": ["keys"]}}]
ONE_PURGED_SELECTION = [
    {"required": ["keys"], "not": {"required": ["group"]}},
    {"required": ["filter"],
     "not": {"anyOf": [{"required": ["group"]}, {"required": ["keys"]}]}},
    {"required": ["all"]},
    {"required": ["group"], "not": {"required": ["keys"]}}]


def clearable(field):
    """A field of a change, where null clears."""
    kinds = {"type": [field["type"], "null"]}
    return {**field, **kinds, **({"enum": [*field["enum"], None]} if "enum" in field else {})}


# What a rule for topics can say; what is left out is as the next wider rule has it.
POLICY = dict(
    topic=ref("TopicPattern"),
    maxAttempts=integer("Failed attempts after which a message is dead.", minimum=1),
    backoffSeconds=seconds("The base of delays that double.", exclusiveMinimum=0),
    delaysSeconds=array(
        seconds("A delay.", exclusiveMinimum=0), maxItems=100,
        description="In place of a backoff: after the first failure, the second, and so on."),
    maxDelaySeconds=seconds("The longest delay.", exclusiveMinimum=0),
    jitter=words("None", "Equal", "Full", description="How much of a delay is left to chance."),
    giveUpAfterSeconds=seconds(
        "A message is not given up before it is so old; 0 counts attempts alone.", minimum=0),
    maxDeliveries=integer(
        "Failed and lapsed deliveries after which a message whose lease lapses is dead.",
        minimum=1),
    maxConcurrency=integer("Leased at once, by all workers together.", minimum=1),
    rate={"type": "object", "description": "Handed out in some time, to all workers together.",
          "required": ["count"],
          "properties": {
              "count": integer("So many.", minimum=1),
              "perSeconds": seconds("In so much time.", exclusiveMinimum=0, default=1),
              "burst": integer("At once at most; left out, as many as the count.", minimum=1)}},
    paused=boolean("Not handed out."))


def items(item, **more):
    return request(["items"], **more, items=array(item, **BATCH))


def results(item):
    return answer(["results"], results=array(item))


def nullable(schema):
    return {"anyOf": [schema, {"type": "null"}]}


QUEUE_SCHEMAS = {
    "Problem": {
        **answer(
            ["type", "title", "status", "code"],
            type=text("`urn:oncebox:error:` and the code.", format="uri"),
            title=text("For people."),
            status=integer("The same as the answer's."),
            code=words(
                "invalid_argument", "out_of_range", "not_found", "conflict", "overloaded",
                "unavailable", "timeout", "cancelled", "outcome_unknown", "unsupported", "corrupt",
                "internal",
                "bad_request", "unauthorized", "forbidden", "method_not_allowed", "too_large",
                "unsupported_media_type", "request_timeout", "header_too_large", "draining",
                description="Stable: for programs."),
            detail=text("What is wrong and what to do, for people."),
            requestId=text("Also in the server's log."),
            linesStored=count("Of a stream that failed midway: so many lines are dealt with."),
        ),
        "description": "Problem details (RFC 9457).",
    },
    "TopicPattern": {
        "description": "A topic, or the beginning of one and `*`. An exact topic that ends in `*` "
        "is an object.",
        "oneOf": [
            text(minLength=1, maxLength=255),
            {"type": "object", "required": ["exact"], "additionalProperties": False,
             "properties": {"exact": name("This topic and no other.")}},
        ],
        "examples": ["order.*"],
    },
    "TopicSelection": request(
        [],
        only=array(
            ref("TopicPattern"), maxItems=256,
            description="Empty: all. With `except` at most 256 patterns, of 64 KiB together."),
        **{"except": array(ref("TopicPattern"), maxItems=256)}),
    "MessageKey": request(["source", "messageId"], **KEY),
    "NewMessage": {
        **request(
            ["topic"],
            **{**KEY, "source": name("Left out: the name of the token, without tokens `http`."),
               "messageId": name("Left out: the field Idempotency-Key, or a new UUID.")},
            **CONTENT),
        "oneOf": [{"required": ["payload"]}, {"required": ["payloadBase64"]}],
    },
    "Enqueued": answer(
        ["source", "messageId", "status"], **KEY,
        status=words(*ENQUEUE_WORDS),
        hashMismatch=boolean("It came before with other content."),
        quarantinedAs=name("The id under which it was put among the dead."),
        newlyDead=boolean("Quarantined by this call; left out when the same content came before.")),
    "EnqueuedBatch": results(ref("Enqueued")),
    "IntakeSummary": answer(
        ["received", "failedCount", "failed", "hashMismatches"],
        received=count("Lines that were not empty."),
        **{word[0].lower() + word[1:]: count() for word in ENQUEUE_WORDS},
        hashMismatches=count(),
        failedCount=count(),
        failed=array(
            answer(["line", "code", "detail"],
                   line=integer("From 1.", minimum=1), code=text(), detail=text()),
            description="The first of those that failed.")),
    "MessageRecord": answer(
        ["source", "messageId", "status", "state", *HISTORY_REQUIRED],
        **KEY, **CONTENT,
        status=words(*STATUS_WORDS, description="The group of the state."),
        state=words(*STATE_WORDS, description="What it is doing."),
        waitingFor=words(*WAITING_WORDS, description="While it is waiting."),
        **HISTORY,
        worker=text("The name of the worker that holds it, or held it last."),
        owner=uuid("The token of its holder."),
        delivery=count(),
        leasedAt=time("When the lease began."),
        lockedUntil=time("When the lease ends."),
        eligibleAt=time("When it can be, or could be, claimed."),
        finishedAt=time("When it became done or dead."),
        revivals=answer(["count"], count=count(), lastAt=time(), lastReason=text()),
        attempts=array(
            ref("Attempt"),
            description="The last attempts, oldest first; absent in lists and where there are "
                        "none: a message that succeeds at once has none.")),
    "Attempt": answer(
        ["number", "endedAt", "outcome"],
        number=count("The first of the message is 1."),
        worker=text("The name of the worker."),
        begunAt=time("When it was handed out."),
        endedAt=time("When it was settled, or its lease ended."),
        outcome=words(
            "Succeeded", "Abandoned", "Failed", "Lapsed", "Superseded", "Cancelled", "MarkedDead"),
        errorKind=text(), error=text()),
    "Workers": answer(
        ["workers"],
        workers=array(answer(
            ["name", "leases", "since", "lastSeen"],
            name=text(), leases=count("Messages that it holds now."),
            since=time("Its first claim."),
            lastSeen=time("Its last claim: exact to ten seconds, of an idle worker to five "
                          "minutes.")))),
    "MessagePage": answer(
        ["messages"],
        messages=array(ref("MessageRecord")),
        next=text("For `after`; absent on the last page.")),
    "Claim": request(
        [],
        owner=uuid("Keep one for a worker's whole life; left out: a new one."),
        worker=text(
            "What people call this worker, such as shop-3:8124: leases and attempts are shown with "
            "it; left out: the name of the token.", minLength=1, maxLength=100),
        leaseSeconds=seconds("How long they are yours.", exclusiveMinimum=0, maximum=86400,
                             default=30),
        limit=integer("At most so many messages.", minimum=1, maximum=10000, default=50),
        maxBytes=integer("Of payloads; the first comes whatever its size.", minimum=1),
        topics=ref("TopicSelection"),
        waitSeconds=seconds("How long to wait for a message.", minimum=0, maximum=60, default=0)),
    "ClaimedMessage": answer(
        ["source", "messageId", "topic", "delivery", "lockedUntil", "eligibleAt",
         *HISTORY_REQUIRED],
        **KEY, **CONTENT, **HISTORY,
        delivery=count("Settle with it: it tells this claim from a later one."),
        lockedUntil=time("Yours until then."),
        eligibleAt=time("Since when it could be claimed."),
        revivedAt=time("When it came back from the dead the last time, if it ever did."),
        maxAttempts=integer(
            "Failed attempts after which it is dead, by the policy of its topic when it was "
            "claimed.", minimum=1),
        giveUpAfterSeconds=seconds(
            "With maxAttempts: dead only when it is as old as this, too.", exclusiveMinimum=0)),
    "Claimed": answer(
        ["owner", "messages"], owner=uuid(), messages=array(ref("ClaimedMessage")),
        reaped=ref("Reaped")),
    "Settlements": items(
        request(
            ["source", "messageId", "verdict"], **DELIVERY,
            verdict=words(
                "Ack", "Abandon", "Fail", "Release",
                description="Done; try again later; dead; not tried."),
            error=text("Why, for Abandon and Fail; Fail must have one."),
            errorKind=text(
                "A word for what went wrong, such as the type of an exception; kept with the "
                "attempt.", minLength=1, maxLength=100),
            delaySeconds=seconds(
                "Left out: for Abandon as the topic's policy says, for Release at once.",
                exclusiveMinimum=0),
            delayIsLeast=boolean("For Abandon: the policy's delay holds where it is longer."),
            untried=boolean(
                "For Fail: the delivery was not tried; no attempt is counted or kept."),
            maxAttempts=integer(
                "For Abandon: the worker's own limit; left out, that of the topic's policy.",
                minimum=1),
            giveUpAfterSeconds=seconds(
                "For Abandon, with maxAttempts: dead only when it is as old as this, too.",
                exclusiveMinimum=0)),
        owner=uuid("Of the items that have none.")),
    "Settled": results(answer(
        ["status"],
        status=words("Settled", "Superseded", "LeaseLost"),
        againAt=time("When the message can be claimed again; left out, it is done or dead."),
        death=words(
            "Failed", "Attempts",
            description="The message is dead: the verdict was Fail, or this was its last attempt."),
        policy=words(
            "Worker", "Topic", "Queue",
            description="After Abandon, whose limit of attempts applied: the worker's own, that of "
                        "a rule for the topic, or the one that the queue has by itself."))),
    "Extensions": items(
        request(["source", "messageId"], **DELIVERY,
                leaseSeconds=seconds("From now on; never shortens a lease.", exclusiveMinimum=0,
                                     maximum=86400, default=30)),
        owner=uuid("Of the items that have none.")),
    "Extended": results(answer(
        ["status"], status=words("Extended", "LeaseLost"), lockedUntil=time())),
    "Observations": items(request(["source", "messageId"], **KEY, hash=HASH)),
    "Observed": results(answer(
        ["state"],
        state=words("Unseen", *STATE_WORDS, description="What was known before."),
        hashMismatch=boolean("It came before with other content."))),
    "Marks": items(request(
        ["source", "messageId", "as"], **KEY, error=text("Why, for Dead."),
        **{"as": words("Processing", "Processed", "Dead")})),
    "Marked": results(words("Marked", "Already", "Unknown", "Refused")),
    "MessageKeys": request(
        ["keys"], keys=array(ref("MessageKey"), **BATCH),
        payloads=boolean("Whether to answer payloads and attempts; left out: true."),
        maxBytes=integer(
            "The answer ends before its messages have more bytes; the first comes whatever its "
            "size. At most 16 MiB are answered.", minimum=1, maximum=67108864)),
    "Found": answer(
        ["results"], results=array(nullable(ref("MessageRecord"))),
        truncated=boolean("There are keys without a result: ask again for these.")),
    "Reap": request(
        [], limit=integer("At most so many leases.", minimum=1, default=1000)),
    "Reaped": answer(
        ["released", "buried", "deaths"],
        released=count("Leases that ended: the messages can be claimed again."),
        buried=count("Messages that went dead: they expired, or were delivered too often."),
        deaths=array(ref("Death"), description="Theirs; of very many the first thousand.")),
    "Death": answer(
        ["source", "messageId", "topic", "error"], **KEY, topic=text("Its topic."),
        error=text("Why it is dead.")),
    "Topics": request([], topics=ref("TopicSelection")),
    "NextDue": answer(
        ["dueAt"], dueAt={"type": ["string", "null"], "format": "date-time",
                          "description": "Null when nothing waits for a time."}),
    "Filter": request([], **FILTER),
    "CountRequest": request([], filter=ref("Filter")),
    "Count": answer(["count"], count=count()),
    "TopicStats": answer(
        ["seen", "waiting", "waitingFor", "ready", "leased", "done", "dead"], **TOPIC_COUNTS),
    "QueueStats": answer(
        ["total", "topics"], total=ref("TopicStats"), topics=array(ref("TopicStats")),
        next=text("For `after`; absent on the last page.")),
    "Act": {**request([], **ACT_CALL), "oneOf": ONE_WAY},
    "Reschedule": {
        **request(["dueAt"], **ACT_CALL,
                  dueAt=time("Not handed out before this time; one in the past means now.")),
        "oneOf": ONE_WAY},
    "Acted": answer(
        ["count"], count=count("Messages that were changed."), dryRun={"type": "boolean"},
        results=array(
            words("Changed", "Refused", "ExpiresFirst", "Unknown"),
            description="By keys. Refused: the state of the message does not allow it, or the "
            "filter beside the keys does not match. ExpiresFirst: the message expires before the "
            "new due time, or at it.")),
    "Revive": {
        **request(
            [], **DEAD_CALL,
            delaySeconds=seconds("Claimable only after it.", minimum=0),
            perSecond={"type": "number", "minimum": 0.001, "maximum": 1000000,
                       "description": "Claimable at this rate, those of a second together; "
                                      "left out: all at once."}),
        "oneOf": ONE_SELECTION},
    "Purge": {
        **request([], **{**DEAD_CALL, "filter": ACT_CALL["filter"]}),
        "oneOf": ONE_PURGED_SELECTION},
    "Revived": answer(
        ["count"], count=count(), dryRun={"type": "boolean"},
        lastsSeconds=seconds("At a rate: from now until the last is claimable.", minimum=0),
        results=array(words("Revived", "NotDead", "Unknown"), description="By keys.")),
    "DeadGroups": answer(
        ["groups", "messages", "others", "complete", "fingerprintVersion"],
        groups=array(answer(
            ["group", "fingerprint", "error", "count", "firstAt", "lastAt", "sample"],
            group=text("To be handed to revive and purge."),
            topic=name("Absent for keys that were only observed."),
            fingerprint=text("Of the error without what differs from time to time."),
            error=text("The error without what differs from time to time."),
            count=count(), firstAt=time("When the first of them died."),
            lastAt=time("When the last of them died."), sample=ref("MessageKey"))),
        messages=count("That were looked at."),
        others=count("Of them, those of groups that are not listed."),
        complete=boolean("Whether all that match were looked at."),
        fingerprintVersion=integer("Fingerprints of different versions have nothing in common.")),
    "Purged": answer(
        ["count"], count=count(), dryRun={"type": "boolean"},
        results=array(words("Purged", "NotDead", "Unknown"), description="By keys.")),
    "TopicCall": request(
        ["topic"], topic=ref("TopicPattern"),
        reason=text("For the audit trail.", maxLength=2048)),
    "Paused": answer(["paused"], paused=array(ref("TopicPattern"))),
    "TopicPolicyCall": request(
        ["topic"],
        **{name: field if name == "topic" else clearable(field) for name, field in POLICY.items()},
        reason=text("For the audit trail.", maxLength=2048)),
    "TopicPolicy": answer(["topic"], **POLICY),
    "TopicPolicies": answer(["policies"], policies=array(ref("TopicPolicy"))),
    "Cleanup": request(
        [], doneRetentionSeconds=seconds("How long done messages are kept."),
        deadRetentionSeconds=seconds("How long dead ones are kept; left out: for ever."),
        limit=integer("At most so many.", minimum=1, default=1000),
        keys={"type": "boolean", "description": "Also forgotten keys.", "default": True},
        reason=text("For the audit trail.", maxLength=2048)),
    "CleanedUp": answer(
        ["doneRemoved", "deadRemoved", "keysRemoved"],
        doneRemoved=count(), deadRemoved=count(), keysRemoved=count()),
    "Stores": answer(
        ["stores", "discovery"],
        stores=array(answer(
            ["name", "default", "state", "health"],
            name=text(),
            default=boolean("Meant by paths without a store."),
            state=words("Open", "Down"),
            health=words("Healthy", "Degraded", "Unavailable"),
            detail=text("Why, when it is not healthy."),
            capabilities=answer(
                ["durable", "maxPayloadBytes"],
                durable=boolean("What was accepted outlives the process."),
                sharedBetweenProcesses=boolean("Several processes may open it."),
                joinsCallerTransaction=boolean("Enqueues inside the caller's transaction."),
                notifies=boolean("Tells waiting claims of new messages."),
                nativeTtl=boolean("Removes forgotten keys by itself."),
                maxPayloadBytes=count()))),
        next=text("For the next page."),
        discovery=answer(
            ["health"],
            health=words("Healthy", "Degraded", "Unavailable"),
            detail=text("Why the stores are those of an earlier discovery."))),
    "RefreshedStores": answer(
        ["added", "removed", "reopened", "down"],
        added=array(text(), description="New, open or not."),
        removed=array(text(), description="No longer there."),
        reopened=array(text(), description="To be found elsewhere now."),
        down=array(text(), description="There, and could not be opened so far.")),
}

EDIT_SCHEMAS = {
    "Edit": request(
        ["items"],
        items=array({
            **request(["source", "messageId"], **KEY, **PAYLOAD),
            "oneOf": [{"required": ["payload"]}, {"required": ["payloadBase64"]}]}, **BATCH),
        delaySeconds=seconds("Claimable only after it.", minimum=0),
        reason=text("Kept with the messages and with what they had.", maxLength=2048)),
    "Edited": answer(
        ["count", "results"], count=count(),
        results=array(words(
            "Revived", "NotDead", "Unknown", "NoContent",
            description="NoContent: it was never enqueued, so there is nothing to edit."))),
    "History": answer(
        ["contents"],
        contents=array(answer(
            ["contentVersion", "replacedAt"],
            contentVersion=integer("The version that had this payload.", minimum=1),
            payload=text("When it is text, whatever it means."),
            payloadBase64=base64("When it is no text."),
            hash=HASH, replacedAt=time(),
            replacedBy=text("The name of the token by which it was replaced."),
            reason=text()))),
}

AUDIT_SCHEMAS = {
    "AuditEntry": answer(
        ["id", "actor", "action", "part", "begunAt"],
        id=count("Grows, and is never used again."),
        actor=text("The name of the token, or `anonymous`; of the user where a tool worked on the "
                   "store directly."),
        action=words(
            "Revive", "ReviveEdited", "Purge", "Cleanup", "Pause", "Resume", "SetPolicy", "Cancel",
            "RunNow", "Reschedule", "Delete", "SetEndpoint", "RemoveEndpoint", "DisableEndpoint",
            "EnableEndpoint", "Resend"),
        part=words("Inbox", "Outbox", "Keys", "AuditTrail", "Deliveries", "Endpoints"),
        subject=text("What was selected, as JSON, which may have been cut."),
        reason=text(),
        begunAt=time(), finishedAt=time(),
        status=words("Succeeded", "Failed", "Unknown",
                     description="Absent: under way, or nobody lived to tell."),
        changed=count("How many messages, keys, topics or entries."),
        detail=text("Why it did not succeed.")),
    "AuditPage": answer(
        ["entries"],
        entries=array(ref("AuditEntry")),
        next=text("For `after`; absent on the last page.")),
    "AuditCleanup": request(
        [],
        retentionSeconds=seconds("How long entries are kept.", minimum=0, default=31536000),
        limit=integer("At most so many.", minimum=1, default=1000),
        reason=text("For the trail.", maxLength=2048)),
}

ENDPOINT_NAME = text(
    "Also the topic of its deliveries.", minLength=1, maxLength=64, pattern="^[A-Za-z0-9._-]+$")
ENDPOINT = dict(
    name=ENDPOINT_NAME,
    url=text("`https://…` and `http://…`: a signed webhook; `oncebox+https://…`: another Oncebox.",
             maxLength=2048),
    topics=array(ref("TopicPattern"), maxItems=64,
                 description="A message goes here when one of them matches. Left out: all."),
    secrets=array(
        text("`literal:` and the secret; `env:NAME` and `file:PATH` come from the configuration.",
             maxLength=2048),
        maxItems=10, description="In a request, left out: those that are there stay."),
    headers={
        "type": "object", "description": "Of every request.", "maxProperties": 64,
        "additionalProperties": text(maxLength=8192)},
    timeoutSeconds=seconds("Of one attempt.", exclusiveMinimum=0, maximum=3600),
    allowPrivate=boolean("Whether addresses of private networks may be called."),
    disableAfterSeconds=seconds(
        "It is disabled when deliveries have failed for so long, without a success or a pause of a "
        "quarter of that time; 0: never.", minimum=0,
        default=432000))
ENDPOINT_STATUS = dict(
    failingSince=time("Since then deliveries have failed, and none has succeeded."),
    lastFailure=time("The last of these failures, to a fortieth of `disableAfterSeconds`."),
    disabledAt=time("It gets nothing from then on, until it is enabled."),
    disabledReason=text())

ENDPOINT_SCHEMAS = {
    "EndpointSave": request(
        ["name", "url"], **ENDPOINT, reason=text("For the audit trail.", maxLength=2048)),
    "EndpointSaved": answer(["status"], status=words("Created", "Changed", "Unchanged")),
    "EndpointList": answer(
        ["version"], version=count("Grows with every change."),
        endpoints=array(
            answer(["name", "url"], **ENDPOINT, **ENDPOINT_STATUS),
            description="By name; absent when the version is `knownVersion`.")),
    "EndpointRemoval": request(
        ["name"], name=ENDPOINT_NAME, reason=text("For the audit trail.", maxLength=2048)),
    "EndpointNote": request(
        ["name", "event"], name=ENDPOINT_NAME,
        event=words("Failed", "Worked", "Disabled", "Enabled"),
        at=time("Left out: now."), reason=text("Also for the audit trail.", maxLength=2048)),
    "EndpointNoted": answer(
        ["known", "changed"], known=boolean("Whether there is such an endpoint."),
        changed=boolean("Of several that note the same, one is told so."), **ENDPOINT_STATUS),
    "EndpointTest": request(
        [], waitSeconds=seconds(
            "After that nobody delivers it any more.", exclusiveMinimum=0, maximum=3600,
            default=30)),
    "EndpointTested": answer(["source", "messageId"], source=text(), messageId=text()),
    "EndpointResend": {
        **request(
            [], since=time("All that was sent since; as far back as the outbox remembers."),
            until=time("With `since`: and before this time."),
            failed={"const": True,
                    "description": "What failed for good: neither what was cancelled or has "
                                   "expired, nor tests."},
            source=text("Of one message."), messageId=text("Of one message."),
            perSecond={"type": "number", "minimum": 0.001, "maximum": 1000000,
                       "description": "No faster than this; left out: at once."},
            dryRun=boolean("Only count."),
            reason=text("Also for the audit trail.", maxLength=2048)),
        "oneOf": [{"required": ["since"]}, {"required": ["failed"]},
                  {"required": ["source", "messageId"]}]},
    "EndpointResent": answer(
        ["count", "underWay", "notWanted", "dryRun"],
        count=count("How many are sent again."),
        underWay=count("They were left alone."),
        notWanted=count("Their topics are not the endpoint's."),
        dryRun=boolean("Nothing was sent.")),
}

KEY_SCHEMAS = {
    "TryBegin": request(
        ["key"], key=IDEMPOTENCY_KEY, owner=text("A label for people."), leaseSeconds=KEY_LEASE),
    "TriedBegin": answer(
        ["status"],
        status=words("Acquired", "Processed", "Busy"),
        leaseId=uuid("When acquired."),
        expiresAt=time("When the lease ends."),
        leaseUntil=time("The same, by its name in every other answer.")),
    "MarkProcessed": request(
        ["key"], key=IDEMPOTENCY_KEY,
        leaseId=uuid("Left out: unconditional, unless the server is strict.")),
    "MarkedProcessed": answer(["status"], status=words("Processed", "LeaseLost")),
    "Release": request(["key", "leaseId"], key=IDEMPOTENCY_KEY, leaseId=LEASE_ID),
    "Released": answer(
        ["status"], status=words("Released", "LeaseLost", "Processed", "Unknown")),
    "KeyState": answer(
        ["status", "attempts"],
        status=words("Unknown", "InProgress", "Released", "Failed", "Processed"),
        attempts=count(), firstSeen=time(), lastSeen=time(), leaseUntil=time()),
    "KeyBegins": items(request(
        ["key"], key=IDEMPOTENCY_KEY, owner=text("A label for people."), leaseSeconds=KEY_LEASE,
        retentionSeconds=RETENTION,
        onFailed=words("Retry", "Suppress", description="Of a key whose work failed."))),
    "KeysBegun": results(answer(
        ["status", "attempts"],
        status=words("Acquired", "Processed", "Busy", "Failed"),
        leaseId=uuid(), leaseUntil=time(), attempts=count(),
        resultBase64=base64("When processed."),
        resultLeftOut=boolean("There is a result beyond the 16 MiB: `/v1/keys/find` answers it."),
        error=text("When failed."))),
    "KeyCompletions": items(request(
        ["key"], key=IDEMPOTENCY_KEY, leaseId=LEASE_ID,
        resultBase64=base64("Kept, and answered to later begins."), retentionSeconds=RETENTION)),
    "KeysCompleted": results(ref("MarkedProcessed")),
    "KeyFailures": items(request(
        ["key", "leaseId", "error"], key=IDEMPOTENCY_KEY, leaseId=LEASE_ID,
        error=text("Why."))),
    "KeysFailed": results(answer(["status"], status=words("Failed", "LeaseLost"))),
    "KeyReleases": items(ref("Release")),
    "KeysReleased": results(ref("Released")),
    "KeyExtensions": items(request(
        ["key", "leaseId"], key=IDEMPOTENCY_KEY, leaseId=LEASE_ID, leaseSeconds=KEY_LEASE)),
    "KeysExtended": results(answer(
        ["status"], status=words("Extended", "LeaseLost"), leaseUntil=time())),
    "KeyNames": request(["keys"], keys=array(IDEMPOTENCY_KEY, **BATCH)),
    "KeysFound": answer(
        ["results"],
        results=array(answer(
            ["status", "attempts"],
            key=IDEMPOTENCY_KEY,
            status=words("Unknown", "InProgress", "Released", "Failed", "Processed"),
            attempts=count(), firstSeen=time(), lastSeen=time(), owner=text(), leaseUntil=time(),
            keepUntil=time("When it is forgotten."), resultBase64=base64(), error=text())),
        truncated=boolean(
            "The results have 16 MiB: there are keys without a result, ask again for these.")),
    "Limit": request([], limit=integer("At most so many.", minimum=1)),
}

SERVICE_SCHEMAS = {
    "Health": answer(["status"], status=text()),
    "Readiness": answer(
        ["status"], status=words("ready", "degraded"),
        storesDown=count("When it is degraded.")),
    "HealthReport": answer(
        ["status", "stores", "findings"],
        status=words("Healthy", "Degraded"),
        detail=text("The first reasons."),
        discovery={
            **answer(["health"], detail=text(), health=words("Degraded", "Unavailable")),
            "description": "Only when the stores are those of an earlier discovery, or none."},
        stores=array(answer(
            ["name", "health"], name=text(), detail=text("Why, when it is not healthy."),
            health=words("Healthy", "Degraded", "Unavailable")),
            description="Those that were looked at, as they were then."),
        findings=array(answer(
            ["code", "store", "since", "detail"],
            code=words("LeaseStuck", "ReadyLate", "StoreLagging", "TopicPoison"),
            store=text(),
            queue=words("inbox", "outbox", "deliveries", description="Absent: the whole store."),
            topic=name("Absent: all of them."), since=time(), detail=text("In a sentence.")))),
}

SCHEMAS = {**QUEUE_SCHEMAS, **EDIT_SCHEMAS, **AUDIT_SCHEMAS, **ENDPOINT_SCHEMAS,
           **KEY_SCHEMAS, **SERVICE_SCHEMAS}
