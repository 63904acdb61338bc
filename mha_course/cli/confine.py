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
LIBRARIES = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache")
READABLE = (*LIBRARIES, "/proc/cpuinfo", "/sys/devices/system/cpu", "/dev/urandom")
FILE_SIZE = 16 << 20  # bytes
OPEN = 64  # files at a time
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as seccomp names them

# Numbers of system calls on x86_64 and on aarch64, from the kernel's tables:
# https://github.com/torvalds/linux/blob/master/arch/x86/entry/syscalls/syscall_64.tbl
# https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/unistd.h
CLONE = (56, 220)
CLONE3 = (435, 435)
PRLIMIT = (302, 261)
PRCTL = (157, 167)
CAPSET = (126, 91)
LANDLOCK_CREATE_RULESET = 444  # these three on both
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
NONE = -1
# System calls that fail with EPERM.
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
    "socketpair": (53, 199), "connect": (42, 203), "sendto": (44, 206), "sendmsg": (46, 211),
    "sendmmsg": (307, 269), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "ioprio_set": (251, 30), "semget": (64, 190),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "inotify_init": (253, NONE),
    "inotify_init1": (294, 26), "pidfd_open": (434, 434), "fanotify_init": (300, 262),
    "shmat": (30, 196), "shmctl": (31, 195), "msgctl": (71, 187), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "close_range": (436, 436),
}  # fmt: skip
# prctl: https://man7.org/linux/man-pages/man2/prctl.2.html
FCNTL = (72, 25)
F_SETOWN = 8
F_SETOWN_EX = 15
PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522

# Instructions of a seccomp filter, and where it finds the call's number, its architecture and its
# first argument: https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html
LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
ANY_BIT = 0x45
RETURN = 0x06
ALLOW = 0x7FFF0000
FAIL = 0x00050000
NUMBER_AT = 0
ARCHITECTURE_AT = 4
ARGUMENT_AT = 16
X32_BIT = 1 << 30  # x86_64's second way to make every call
CLONE_THREAD = 0x10000

# Landlock: https://docs.kernel.org/userspace-api/landlock.html
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
REFER = 1 << 13
TRUNCATE = 1 << 14
# By the version of the kernel's Landlock: how many kinds of access to files it knows, and the size
# of the structure that says what is handled.
ACCESS_KINDS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
RULESET_SIZES = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}
_libc = ctypes.CDLL(None, use_errno=True)


def confine(folder: Path, memory: int) -> None:
    """Confine this process for good.

    It may read Python, its libraries and the course; write files and folders in one folder; start
    threads, and no processes; it reaches no network and no other process, and can take so many
    bytes more than it has.

    Raises: OSError, which names what is missing; then less is confined than this says.
    """
    for descriptor in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()  # away from the terminal
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: held + memory,
        resource.RLIMIT_FSIZE: FILE_SIZE,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: OPEN,  # a file that is deleted takes space until it is closed
    }
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no list of system calls for {machine}")
    column = list(ARCHITECTURES).index(machine)
    # nothing goes on without the process that started it
    _call("pdeathsig", _libc.prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("no_new_privs", _libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    nobody = struct.pack("II", CAPABILITY_VERSION_3, 0)
    _call("capset", _libc.syscall, CAPSET[column], nobody, bytes(24))
    _restrict_files(folder)
    rules = b"".join(struct.pack("HBBI", *rule) for rule in _filter(column))
    buffer = ctypes.create_string_buffer(rules)
    program = struct.pack("HxxxxxxQ", len(rules) // 8, ctypes.addressof(buffer))
    _call("seccomp", _libc.prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)


def _call(what: str, function: ctypes._NamedFuncPointer, *arguments: int | bytes | None) -> int:
    wide = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    result = int(function(*wide))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _restrict_files(folder: Path) -> None:
    """Let Landlock allow what is read, and one folder, and nothing else."""
    create = LANDLOCK_CREATE_RULESET
    add = LANDLOCK_ADD_RULE
    version = _call("Landlock", _libc.syscall, create, None, 0, CREATE_RULESET_VERSION)
    kinds = (1 << ACCESS_KINDS.get(version, 16)) - 1  # that this kernel knows
    network = 3 if version >= 4 else 0  # to bind and to connect
    scoped = 3 if version >= 6 else 0  # sockets and signals of others
    handled = struct.pack("QQQ", kinds, network, scoped)
    rules = _call("Landlock", _libc.syscall, create, handled, RULESET_SIZES.get(version, 24), 0)
    read = EXECUTE | READ_FILE
    allowed = dict.fromkeys((*READABLE, *_libraries(), str(PACKAGE)), read | READ_DIR)
    allowed[os.devnull] = READ_FILE | WRITE_FILE
    allowed[str(folder)] = (
        READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE
        | REMOVE_FILE | REMOVE_DIR | MAKE_REG | MAKE_DIR | REFER
    )  # fmt: skip
    for path, access in allowed.items():
        if os.path.exists(path):
            descriptor = os.open(path, os.O_PATH)
            suits = kinds if os.path.isdir(path) else kinds & ~READ_DIR
            rule = struct.pack("=Qi", access & suits, descriptor)
            _call("Landlock", _libc.syscall, add, rules, RULE_PATH_BENEATH, rule, 0)
            os.close(descriptor)
    _call("Landlock", _libc.syscall, LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _libraries() -> Iterator[str]:
    """Yield the folders of Python and of its libraries, which may lie in somebody's home."""
    yield from {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    yield from (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))


def _filter(column: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the instructions of the filter: each its code, its two jumps and its operand."""
    fail = (RETURN, 0, 0, FAIL | errno.EPERM)
    yield LOAD, 0, 0, ARCHITECTURE_AT
    yield EQUAL, 1, 0, list(ARCHITECTURES.values())[column]
    yield fail
    yield LOAD, 0, 0, NUMBER_AT
    yield AT_LEAST, 0, 1, X32_BIT
    yield fail
    for numbers in DENIED.values():
        if numbers[column] != NONE:
            yield EQUAL, 0, 1, numbers[column]
            yield fail
    yield EQUAL, 0, 5, FCNTL[column]  # whom a file sends signals to
    yield LOAD, 0, 0, ARGUMENT_AT + 8
    yield EQUAL, 2, 0, F_SETOWN
    yield EQUAL, 1, 0, F_SETOWN_EX
    yield RETURN, 0, 0, ALLOW
    yield fail
    # clone3's flags lie where no filter can look; without it, libraries use clone
    yield EQUAL, 0, 1, CLONE3[column]
    yield RETURN, 0, 0, FAIL | errno.ENOSYS
    thread = (ANY_BIT, 0, 1, CLONE_THREAD)
    itself = (EQUAL, 0, 1, 0)
    another = (EQUAL, 1, 0, PR_SET_PDEATHSIG)  # the process ends with the one that started it
    for numbers, condition in ((CLONE, thread), (PRLIMIT, itself), (PRCTL, another)):
        yield EQUAL, 0, 4, numbers[column]
        yield LOAD, 0, 0, ARGUMENT_AT
        yield condition
        yield RETURN, 0, 0, ALLOW
        yield fail
    yield RETURN, 0, 0, ALLOW
