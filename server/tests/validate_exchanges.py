#!/usr/bin/env python3
"""Holds recorded requests and answers against the OpenAPI document.

  validate_exchanges.py [--all] [--except OPERATION]... DOCUMENT EXCHANGES

An exchange is a line of JSON: method, route, requestType, requestBody, status, responseType,
responseBody. A test program is told by ONCEBOX_RECORD_EXCHANGES where to write them. Every call
must be answered with 200 at least once: with --all each, otherwise in one of its variants.
"""

import argparse
import collections
import copy
import json
import pathlib
import re
import sys

import jsonschema

MAX_REPORTED = 20
FORMATS = jsonschema.FormatChecker(formats=())
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@FORMATS.checks("date-time")
def is_time(value):
    return not isinstance(value, str) or TIME.fullmatch(value) is not None


@FORMATS.checks("uuid")
def is_uuid(value):
    return not isinstance(value, str) or UUID.fullmatch(value) is not None


def closed(value):
    """The same schemas, in which an object has no members but the described ones."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: closed(member) for name, member in value.items()}
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


def without_nulls(value):
    """A request may say null for what it leaves out; what a payload says is its own."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: member if name == "payload" else without_nulls(member)
                for name, member in value.items() if member is not None}
    return value


class Description:
    def __init__(self, document):
        self.document = document
        components = closed(copy.deepcopy(document["components"]))
        self.resolver = jsonschema.RefResolver("", {**document, "components": components})
        self.operations = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                self.operations[method.upper(), path] = operation

    def resolve(self, value):
        while "$ref" in value:
            value = self.resolver.resolve(value["$ref"])[1]
        return value

    def errors(self, schema, value):
        validator = jsonschema.Draft202012Validator(
            closed(schema), resolver=self.resolver, format_checker=FORMATS)
        for error in validator.iter_errors(value):
            best = jsonschema.exceptions.best_match([error]) or error
            where = "/".join(str(part) for part in best.absolute_path)
            yield f"at /{where}: {best.message[:300]}"


def media_type(text):
    return text.split(";")[0].strip().lower()


def body_errors(description, content, given_type, body, what):
    kind = media_type(given_type)
    media = content.get(kind) or content.get("*/*")
    if media is None:
        yield f"{what}: {kind or 'no type'} is not described, only {', '.join(content)}"
    elif kind == "application/json" or kind.endswith("+json"):
        try:
            value = json.loads(body)
        except ValueError:
            yield f"{what}: is not JSON"
            return
        value = without_nulls(value) if what == "request" else value
        for error in description.errors(media["schema"], value):
            yield f"{what}: {error}"


def exchange_errors(description, exchange):
    """What is wrong with one exchange."""
    status = str(exchange["status"])
    route = exchange["route"].replace("*}", "}")
    method = "GET" if exchange["method"] == "HEAD" else exchange["method"]
    operation = description.operations.get((method, route))
    if operation is None:
        if route:
            yield "this operation is not described"
        return
    responses = operation["responses"]
    response = description.resolve(responses.get(status) or responses["default"])
    if exchange["method"] != "HEAD":
        yield from body_errors(description, response["content"], exchange["responseType"],
                               exchange["responseBody"], "answer")
    if status == "200" and exchange["requestBody"] and "requestBody" in operation:
        content = description.resolve(operation["requestBody"])["content"]
        yield from body_errors(description, content,
                               exchange["requestType"] or "application/json",
                               exchange["requestBody"], "request")


def example_errors(description):
    """The examples of the document must be what it describes."""
    for (method, path), operation in description.operations.items():
        responses = [(f"answer {status}", response)
                     for status, response in operation["responses"].items()]
        for what, part in [("request", operation.get("requestBody", {})), *responses]:
            for media in description.resolve(part).get("content", {}).values():
                if "example" in media:
                    for error in description.errors(media["schema"], media["example"]):
                        yield f"{method} {path}: the example of the {what}: {error}"


def unanswered(description, exchanges, with_variants):
    """The operations that were never answered with 200."""
    seen = set()
    for exchange in exchanges:
        key = exchange["method"], exchange["route"].replace("*}", "}")
        if exchange["status"] == 200 and key in description.operations:
            operation = description.operations[key]
            seen.add(operation["operationId"])
            if not with_variants:
                seen.add(operation.get("x-variant-of"))
    for (method, path), operation in description.operations.items():
        name = operation["operationId"]
        if not with_variants:
            name = operation.get("x-variant-of", name)
        if name not in seen:
            yield f"{method} {path}: never answered with 200"


def read(file):
    """Some tests send what is no UTF-8."""
    return file.read_text(encoding="utf-8", errors="surrogateescape")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("document", type=pathlib.Path)
    parser.add_argument("exchanges", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--except", dest="leave_out", action="append", default=[],
                        help="an operationId that need not be answered")
    arguments = parser.parse_args()

    description = Description(json.loads(arguments.document.read_text(encoding="utf-8")))
    exchanges = [json.loads(line) for line in read(arguments.exchanges).split("\n") if line]
    problems = collections.Counter(example_errors(description))
    for exchange in exchanges:
        where = f"{exchange['method']} {exchange['route']} -> {exchange['status']}"
        for error in exchange_errors(description, exchange):
            problems[f"{where}: {error}"] += 1
    for method_path, operation in list(description.operations.items()):
        if operation["operationId"] in arguments.leave_out:
            del description.operations[method_path]
    for missing in unanswered(description, exchanges, arguments.all):
        problems[missing] += 1
    for problem, times in problems.most_common(MAX_REPORTED):
        print(f"{problem} ({times} times)" if times > 1 else problem)
    if problems:
        sys.exit(f"{len(problems)} problem(s) in {len(exchanges)} exchanges")
    print(f"{len(exchanges)} exchanges are as described")


if __name__ == "__main__":
    main()
