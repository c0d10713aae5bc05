"""A limit that the kernel sees to, so that a server which takes too much cannot take the machine.

Where a control group can be made (cgroup v2, with the right to it), that is the limit. Elsewhere it
is one of what the process may write to, which has to be wider: it counts stacks and heaps whether
they are used or not. A limit of the address space would have to be wider still, because the
allocator reserves 64 MiB for each of many heaps.
"""

import contextlib
import os
import pathlib
import resource
import subprocess

MIB = 1024 * 1024
# A control group also counts what the kernel holds for sockets and files.
KERNEL_MIB = 256
# Of each thread's 8 MiB of stack little is ever touched.
STACKS_MIB = 1_024
GROUPS = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_limit(memory_mib):
    """What a new process calls before it runs the program."""
    group = make_group((memory_mib + KERNEL_MIB) * MIB)
    try:
        if group:
            yield lambda: enter(group)
        else:
            yield lambda: limit_data((memory_mib + STACKS_MIB) * MIB)
    finally:
        if group:
            group.rmdir()


def make_group(most):
    """In the group of this process, or the nearest one above it that allows it."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            mine = GROUPS / line[len("0::/"):]
            for folder in (mine, *mine.parents):
                if folder.is_relative_to(GROUPS) and (group := try_group(folder, most)):
                    return group
    return None


def try_group(folder, most):
    group = folder / f"oncebox-attack-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        # Written, not made: there is no such file unless the folder's groups have their own memory.
        with open(group / "memory.max", "r+", encoding="ascii") as limit:
            limit.write(str(most))
        subprocess.run(["true"], preexec_fn=lambda: enter(group), check=True)
        return group
    except (OSError, subprocess.SubprocessError):
        group.rmdir()
        return None


def enter(group):
    (group / "cgroup.procs").write_text(str(os.getpid()))


def limit_data(most):
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
