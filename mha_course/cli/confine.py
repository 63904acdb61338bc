"""Confine a process on Linux: what it may read and write, start, reach, and hold in memory.

Landlock rules over files, a seccomp filter over system calls; both need no privileges and nothing
installed, and nothing takes them off again. Each alone leaves holes: Landlock says nothing of
permissions and times of files, nor, before its third version, of ``truncate``; seccomp cannot read
paths.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import mha_course

PACKAGE = Path(mha_course.__file__).parent
READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
)
FILE_SIZE = 16 << 20  # bytes
OPEN = 64  # files at a time
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = (56, 220)
CLONE3 = (435, 435)
PRLIMIT = (302, 261)
CAPSET = (126, 91)
NONE = -1
# System calls that fail with EPERM, by their numbers on x86_64 and aarch64.
DENIED = {
    "socket": (41, 198), "io_uring_setup": (425, 425), "shmget": (29, 194), "msgget": (68, 186),
    "fork": (57, NONE), "vfork": (58, NONE), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "truncate": (76, 45), "chmod": (90, NONE), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, NONE), "fchown": (93, 55),
    "lchown": (94, NONE),
    "fchownat": (260, 54), "utime": (132, NONE), "utimes": (235, NONE), "futimesat": (261, NONE),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466), "unshare": (272, 97), "setns": (308, 268),
}  # fmt: skip
ALLOW, FAIL = 0x7FFF0000, 0x00050000
LOAD = 0x20
EQUAL = 0x15
ATLEAST = 0x35
ANYBIT = 0x45
RETURN = 0x06
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_FILE, MAKE_REG, TRUNCATE = (
    1 << bit for bit in (0, 1, 2, 3, 5, 8, 14)
)
_libc = ctypes.CDLL(None, use_errno=True)


def confine(folder: Path, memory: int) -> None:
    """Confine this process for good.

    It may read Python, its libraries and the course; write files in one folder, no folders or
    links; start threads,
    and no processes; it reaches no network and no other process, and can take so many bytes more
    than it has.

    Raises: OSError, which names what is missing; then less is confined than this says.
    """
    for kind in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), kind)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()  # away from the terminal
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: held + memory,
        resource.RLIMIT_FSIZE: FILE_SIZE,
        resource.RLIMIT_CORE: 0,
    }
    limits[resource.RLIMIT_NOFILE] = OPEN  # a file that is deleted takes place until it is closed
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
    place = (
        ("x86_64", "aarch64").index(platform.machine())
        if platform.machine() in ARCHITECTURES
        else None
    )
    if place is None:
        raise OSError(errno.ENOSYS, f"no list of system calls for {platform.machine()}")
    _call(
        "pdeathsig", _libc.prctl, 1, signal.SIGKILL, 0, 0, 0
    )  # nothing goes on without who started it
    _call("no_new_privs", _libc.prctl, 38, 1, 0, 0, 0)
    _call("capset", _libc.syscall, CAPSET[place], struct.pack("II", 0x20080522, 0), bytes(24))
    _restrict_files(folder)
    rules = b"".join(struct.pack("HBBI", *rule) for rule in _filter(place))
    buffer = ctypes.create_string_buffer(rules)
    program = struct.pack("HxxxxxxQ", len(rules) // 8, ctypes.addressof(buffer))
    _call("seccomp", _libc.prctl, 22, 2, program, 0, 0)


def _call(what: str, function: ctypes._NamedFuncPointer, *arguments: int | bytes | None) -> int:
    """Make a system call. Raises: OSError where it fails."""
    wide = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    result = int(function(*wide))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _restrict_files(folder: Path) -> None:
    """Let Landlock allow what is read, and one folder, and nothing else."""
    version = _call("Landlock", _libc.syscall, 444, None, 0, 1)
    rights = (
        13 + (version > 1) + (version > 2) + (version > 4)
    )  # how many kinds of access to files it knows
    known = (1 << rights) - 1
    network = 3 * (version > 3)
    scoped = 3 * (version > 5)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _call(
        "Landlock", _libc.syscall, 444, struct.pack("QQQ", known, network, scoped), size, 0
    )
    read = EXECUTE | READ_FILE
    allowed = dict.fromkeys((*READABLE, *_libraries(), str(PACKAGE)), read | READ_DIR)
    allowed[os.devnull] = READ_FILE | WRITE_FILE
    allowed[str(folder)] = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_FILE | MAKE_REG
    for path, access in allowed.items():
        if os.path.exists(path):
            place = os.open(path, os.O_PATH)
            kinds = known if os.path.isdir(path) else known & ~READ_DIR
            _call(
                "Landlock",
                _libc.syscall,
                445,
                rules,
                1,
                struct.pack("=Qi", access & kinds, place),
                0,
            )
            os.close(place)
    _call("Landlock", _libc.syscall, 446, rules, 0)
    os.close(rules)


def _libraries() -> Iterator[str]:
    """Yield the folders of Python and of what is installed in it, which may lie in
    somebody's home.
    """
    yield from {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    yield from (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))


def _filter(place: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the instructions of the seccomp filter, each its code, its two jumps and its
    operand.
    """
    fail = (RETURN, 0, 0, FAIL | errno.EPERM)
    number = (LOAD, 0, 0, 0)
    argument = (LOAD, 0, 0, 16)
    yield LOAD, 0, 0, 4
    yield EQUAL, 1, 0, list(ARCHITECTURES.values())[place]
    yield fail
    yield number
    yield ATLEAST, 0, 1, 1 << 30  # x86_64's second way to make every call
    yield fail
    for numbers in DENIED.values():
        if numbers[place] != NONE:
            yield EQUAL, 0, 1, numbers[place]
            yield fail
    yield (
        EQUAL,
        0,
        1,
        CLONE3[place],
    )  # its flags lie where no filter can look; without it, libraries use clone
    yield RETURN, 0, 0, FAIL | errno.ENOSYS
    thread = (ANYBIT, 0, 1, 0x10000)
    itself = (EQUAL, 0, 1, 0)
    for numbers, condition in ((CLONE, thread), (PRLIMIT, itself)):
        yield EQUAL, 0, 4, numbers[place]
        yield argument
        yield condition
        yield RETURN, 0, 0, ALLOW
        yield fail
    yield RETURN, 0, 0, ALLOW
