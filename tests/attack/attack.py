#!/usr/bin/env python3
"""Attacks a real server in every way of `attacks.py` at once, while honest clients go on working.

  attack.py PROGRAM [--seconds 10] [--strength 1.0] [--memory MIB] [--tls] [--only ATTACK]...

Fails when an honest request is not answered with 200 in time, when a message that was accepted is
not there once, when the server takes more memory than `limits.memory` or does not give it back
(R-38), or when it does not end on SIGTERM; and when an attack was never under way. Nobody reads the
server's log. Everything stays on this machine's loopback.
"""

import argparse
import asyncio
import multiprocessing
import pathlib
import resource
import sys
import tempfile
import time

import honest_clients
from attacked_server import attacked_server, make_certificate
from attackers import attack_in_process
from attacks import ATTACKS
from http_client import ask, make_target

# For all attacks to be under way and all honest clients to have had their rounds, besides the
# seconds for which the attack goes on.
SECONDS_FOR_ALL = 90
REPORT_SECONDS = 30
GIVEN_BACK_SECONDS = 30
STOP_SECONDS = 60
PROBLEMS_SHOWN = 20
HELD_BYTES_MAX = 1_000_000  # for connections that the server has not closed yet


class Attackers:
    """The process that attacks."""

    def __init__(self, port, certificate, arguments):
        self.waiting_for = multiprocessing.Value("i", len(ATTACKS))
        self.reports, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=attack_in_process, args=(
            port, certificate, arguments.strength, arguments.only, self.waiting_for, theirs))
        self.process.start()
        theirs.close()

    def are_under_way(self):
        return self.waiting_for.value == 0

    def have_ended(self):
        return not self.process.is_alive()

    def stop(self):
        """What each attack got, those that were never under way, and what else was wrong."""
        try:
            if self.have_ended():
                return [], [], [f"the attackers ended with {self.process.exitcode}"]
            self.process.terminate()
            if not self.reports.poll(REPORT_SECONDS):
                return [], [], [f"the attackers said nothing for {REPORT_SECONDS} s"]
            return self.reports.recv()
        except EOFError:
            return [], [], ["the attackers ended without a report"]
        finally:
            self.process.kill()
            self.process.join()


def ask_after_the_attack(target, method, path, body=None):
    async def ask_once():
        reader, writer = await target.connect(honest_clients.ADDRESS)
        try:
            return await ask(reader, writer, method, path, honest_clients.TOKEN, body)
        finally:
            writer.close()

    async def ask_in_time():
        return await asyncio.wait_for(ask_once(), honest_clients.ANSWER_SECONDS_MAX)

    status, answer = asyncio.run(ask_in_time())
    if status != 200:
        raise AssertionError(f"after the attack {path} is answered {status}: {answer}")
    return answer


def check_messages(target, ledger):
    """Every message that was accepted is there once, and done if a client was told so."""
    done, others = (
        ask_after_the_attack(target, "POST", "/v1/messages/count",
                             {"filter": {"topic": "honest*", "state": states}})["count"]
        for states in (["Done"], ["Ready", "Leased", "Waiting", "Dead"]))
    if (done, done + others) == (ledger.settled, ledger.accepted):
        return []
    return [f"{ledger.accepted} messages were accepted and {ledger.settled} settled; "
            f"{done + others} are stored and {done} done"]


def held_bytes(target):
    """What the server counts as held by clients."""
    metrics = ask_after_the_attack(target, "GET", "/metrics")
    return sum(float(line.split()[-1]) for line in metrics.splitlines()
               if line.startswith("oncebox_http_held_bytes"))


def check_memory(server, target, memory_mib):
    """At most limits.memory during the attack. After it, nothing is held for clients who are gone,
    and the server has half of the memory, which is its own."""
    begun = time.monotonic()
    while True:
        held = held_bytes(target)
        resident = server.mib("VmRSS")
        given_back = held < HELD_BYTES_MAX and resident <= memory_mib / 2
        seconds = time.monotonic() - begun
        if given_back or seconds > GIVEN_BACK_SECONDS:
            break
        time.sleep(0.2)
    peak = server.mib("VmHWM")
    print(f"the server took {peak:.0f} MiB at most; {seconds:.0f} s after the attack it has "
          f"{resident:.0f} MiB and holds {held / 1024:.0f} KiB for clients")
    problems = []
    if peak > memory_mib:
        problems.append(f"the server took {peak:.0f} MiB, and limits.memory is {memory_mib} MiB")
    if not given_back:
        problems.append(f"the server has not given back its memory: {resident:.0f} MiB")
    return problems


def check_afterwards(server, target, ledger, memory_mib):
    if server.process.poll() is not None:
        return [f"the server ended by itself, with {server.process.returncode}"]
    try:
        problems = check_memory(server, target, memory_mib)
        # Not known of a client that was cut off: its last request may have been carried out.
        return problems if ledger.cut_off else problems + check_messages(target, ledger)
    except (OSError, EOFError, asyncio.TimeoutError, AssertionError) as error:
        return [f"after the attack the server cannot be asked: {error!r}"]


def run(arguments, folder):
    certificate = make_certificate(folder) if arguments.tls else None
    with attacked_server(arguments.program, folder, arguments.memory, arguments.tls) as server:
        target = make_target(server.port, certificate)
        # In a process of their own, so that they do not slow the honest clients down themselves.
        attackers = Attackers(server.port, certificate, arguments)
        try:
            ledger, problems = asyncio.run(honest_clients.work_honestly(
                target, attackers, arguments.seconds, arguments.seconds + SECONDS_FOR_ALL))
        finally:
            tallies, waited_for, found = attackers.stop()
        print("\n".join(tallies))
        print(f"{ledger.accepted} honest messages accepted, {ledger.settled} settled, "
              f"{ledger.refused} requests refused for a while; the slowest answer took "
              f"{ledger.slowest_seconds * 1000:.0f} ms: {ledger.slowest_call}")
        if not problems:
            found += [f"{name}: never under way" for name in waited_for]
        found += check_afterwards(server, target, ledger, arguments.memory)
        code = server.stop(STOP_SECONDS)
        if code != 0:
            found.append(f"the server ended with {code}")
    return found + problems  # of the clients there are many, often of one cause


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--memory", type=int, default=512, help="limits.memory, in MiB")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--only", action="append", choices=ATTACKS, metavar="ATTACK",
                        help="to find out which attack it is: " + ", ".join(ATTACKS))
    return parser.parse_args()


def allow_open_files(strength):
    """This process, the attackers and the server have as many as may be."""
    needed = round(strength * sum(attack.many for attack in ATTACKS.values())) + 500
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < needed:
        sys.exit(f"the attackers need {needed} open files and may have {most}: raise the limit "
                 "(ulimit -Hn), or attack with less --strength")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main():
    arguments = parse_arguments()
    allow_open_files(arguments.strength)
    with tempfile.TemporaryDirectory() as folder:
        problems = run(arguments, pathlib.Path(folder))
    for problem in problems[:PROBLEMS_SHOWN]:
        print("failed:", problem)
    if len(problems) > PROBLEMS_SHOWN:
        print(f"failed: {len(problems) - PROBLEMS_SHOWN} more")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
