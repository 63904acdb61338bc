"""What takes long to train is kept between runs, in ``.cache``, until anything changes that has a part in it."""

import ast
import hashlib
import inspect
import os
import pickle
import sys
from importlib.util import resolve_name
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".cache" / "trained"


def train_once(function, *args, folder=KEPT, root=ROOT, **kwargs):
    """Return ``function(*args, **kwargs)``: from the disk, if it was made of the same sources by the same torch."""
    call = f"{function.__module__}.{function.__qualname__} {args!r} {sorted(kwargs.items())!r}"
    if " at 0x" in call:
        raise ValueError(f"arguments must be known by what they say of themselves, and one is not: {call}")
    path = folder / f"{function.__qualname__}-{fingerprint(call, Path(inspect.getsourcefile(function)), root)}.pickle"
    if not path.exists():
        made = pickle.dumps(function(*args, **kwargs))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")  # another process may write the same file at the same time
        part.write_bytes(made)
        part.replace(path)
    return pickle.loads(path.read_bytes())


def fingerprint(call, start, root=ROOT):
    """Return a hash of a call, of a file, of all files of the course that it imports, and of what computes."""
    found = hashlib.sha256()
    for part in (call, sys.version, torch.__version__, torch.backends.cpu.get_cpu_capability()):
        found.update(part.encode() + b"\0")
    for path in sources(start, root):
        found.update(os.path.relpath(path, root).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:32]


def sources(start, root=ROOT):
    """Return a file and all files of the course that it imports, and that these import, sorted."""
    found, todo = set(), [start]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [file for name in _imports(path, root) for file in _files(name, root)]
    return sorted(found)


def _imports(path, root):
    """Yield the names of all that a file imports, where what is imported from a module may be a module itself."""
    package = ".".join(path.parent.relative_to(root).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _files(name, root):
    """Yield the files that are run when something of the course is imported: packages around it, and itself."""
    parts = name.split(".")
    if parts[0] == "mha_course":
        for count in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:count])
            yield from filter(Path.exists, (place / "__init__.py", place.with_suffix(".py")))
