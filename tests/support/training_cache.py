"""Keep what takes long to train in ``.cache``, until anything changes that goes into it."""

import hashlib
import inspect
import os
import pickle
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".cache" / "trained"
ABOVE = {
    "cli",
    "exercises",
    "widgets",
    "plots",
    "exercises.py",
    "lab.py",
    "pictures.py",
    "scene",
}  # what no model is made of: imports go down only


def train_once(function, *args, folder=KEPT, root=ROOT, **kwargs):
    """Return ``function(*args, **kwargs)``, from the disk where nothing has changed."""
    call = f"{function.__module__}.{function.__qualname__} {args!r} {sorted(kwargs.items())!r}"
    if " at 0x" in call:
        raise ValueError(
            f"arguments must be known by what they say of themselves, and one is not: {call}"
        )
    made_of = fingerprint(call, Path(inspect.getsourcefile(function)), root)
    path = folder / f"{function.__qualname__}-{made_of}.pickle"
    if not path.exists():
        made = pickle.dumps(function(*args, **kwargs))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(
            f".{os.getpid()}"
        )  # another process may write the same file at the same time
        part.write_bytes(made)
        part.replace(path)
    return pickle.loads(path.read_bytes())


def fingerprint(call, start, root=ROOT):
    """Return a hash of a call, of the files that go into it, and of torch."""
    found = hashlib.sha256()
    for part in (call, sys.version, torch.__version__, torch.backends.cpu.get_cpu_capability()):
        found.update(part.encode() + b"\0")
    package = root / "mha_course"
    files = [
        path for path in package.rglob("*.py") if not ABOVE & set(path.relative_to(package).parts)
    ]
    for path in sorted({start, *files}):
        found.update(os.path.relpath(path, root).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:32]
