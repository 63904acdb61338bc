"""Checkpoints from a hub on this machine, which answers as the real one does."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from rewriting import refused
from safetensors.torch import load, save

from mha_course.errors import ShapeError
from mha_course.models import checkpoints
from mha_course.models.published import listed

hub_constants = pytest.importorskip("huggingface_hub.constants")
from huggingface_hub import file_download  # noqa: E402

COMMIT = "0123456789" * 4
FILES = ("config.json", "tokenizer.json", "model.safetensors")


class Hub(ThreadingHTTPServer):
    """Serve models at /OWNER/NAME/resolve/…, large files by another host; keep requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.models, self.asked, self.errors = {}, [], {}
        self.cut = []  # after how many bytes each of the next answers breaks off
        self.gate = None  # where all wait for each other once, before they hear of weights
        self.digests = {}  # what is said of a file, where that is not true
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        """Be silent about clients that went."""


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub, (_, owner, name, *_, file) = self.server, self.path.split("/")
        headers = self.headers["Range"], self.headers["Authorization"]
        self.server.asked.append((self.command, self.path, *headers))
        files = hub.models.get(f"{owner}/{name}")
        error = hub.errors.get(file) or (
            "RepoNotFound" if files is None else None if file in files else "EntryNotFound"
        )
        if error:
            headers = {"X-Error-Code": error, "X-Repo-Commit": COMMIT}
            return self.reply(403 if error == "GatedRepo" else 404, headers)
        if hub.gate and file == "model.safetensors":
            hub.gate.wait()
            hub.gate = None
        whole = files[file]
        digest = hub.digests.get(file) or hashlib.sha256(whole).hexdigest()
        if file.endswith(".safetensors") and "/cdn/" not in self.path:
            there = f"http://localhost:{hub.server_port}/{owner}/{name}/cdn/{file}"
            linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": len(whole)}
            return self.reply(302, {"X-Repo-Commit": COMMIT, "Location": there, **linked})
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        etag = {"X-Repo-Commit": COMMIT, "ETag": f'"{digest[:40]}"'}
        return self.reply(206 if start else 200, etag, whole[start:])

    def reply(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in ({"Content-Length": len(body)} | headers).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET" and body:
            end = self.server.cut.pop(0) if self.server.cut and "/cdn/" in self.path else len(body)
            self.wfile.write(body[:end])
            self.close_connection = end < len(body)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with a model of each family under its short name, and an empty cache."""
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pattern = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    constants = {
        "ENDPOINT": server.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": pattern,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": False,
        "DOWNLOAD_CHUNK_SIZE": 100,  # what is smaller is lost where a connection breaks
    }
    for name, value in constants.items():
        monkeypatch.setattr(hub_constants, name, value)
    no_time = namedtuple("time", "sleep")(lambda _: None)  # between tries
    monkeypatch.setattr(file_download, "time", no_time)
    for short, family in zip(checkpoints.PUBLISHED, checkpoints.SHIPPED, strict=True):
        folder = checkpoints.shipped(family)
        files = {file: (folder / file).read_bytes() for file in FILES}
        repo = checkpoints.PUBLISHED[short].repo
        sha256 = hashlib.sha256(files["model.safetensors"]).hexdigest()
        server.models[repo] = server.models[f"someone/{family}"] = files
        pinned = checkpoints.Published(repo, COMMIT, sha256)
        monkeypatch.setitem(checkpoints.PUBLISHED, short, pinned)
    yield server
    server.shutdown()
    server.server_close()


def downloads(hub):
    return [asked[2] for asked in hub.asked if asked[0] == "GET" and "/cdn/" in asked[1]]


@pytest.mark.parametrize("name", [*checkpoints.PUBLISHED, "someone/llama"])
def test_what_is_fetched_is_what_lies_there_and_comes_once(name, hub, monkeypatch):
    folder = checkpoints.fetch(name)
    repo = checkpoints.PUBLISHED.get(name, checkpoints.Published(name)).repo
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == hub.models[repo]
    assert folder.name == COMMIT
    assert checkpoints.load(folder).causal == (name != "bert")
    asked = f"/resolve/{COMMIT}/" if name in checkpoints.PUBLISHED else "/resolve/main/config.json"
    assert asked in hub.asked[0][1]
    paths = {path for _, path, *_ in hub.asked if "/resolve/" in path}
    later = {path for path in paths if not path.endswith("config.json")}
    # of one commit, should main move on
    assert later == {f"/{repo}/resolve/{COMMIT}/{file}" for file in FILES[1:]}
    count = len(hub.asked)
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    assert checkpoints.fetch(name) == folder
    assert len(hub.asked) == count


def test_a_connection_that_breaks_is_taken_up_again(hub):
    hub.cut = [1000, 500]
    folder = checkpoints.fetch("someone/gpt2")
    weights = hub.models["someone/gpt2"]["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == weights
    assert downloads(hub) == [None, "bytes=1000-", "bytes=1500-"]


def test_an_interrupt_leaves_nothing_half_done(hub, monkeypatch):
    whole = file_download.http_get

    def interrupted(url, opened, **options):
        if "model.safetensors" in url:
            opened.write(hub.models["someone/bert"]["model.safetensors"][:700])
            raise KeyboardInterrupt
        whole(url, opened, **options)

    monkeypatch.setattr(file_download, "http_get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.fetch("someone/bert")
    monkeypatch.setattr(file_download, "http_get", whole)
    checkpoints.load(checkpoints.fetch("someone/bert"))


def test_a_download_that_broke_off_begins_again_with_the_next_call(hub):
    hub.cut = [1000, *[0] * 9]
    got = "got RemoteProtocolError for model.safetensors of someone/gpt2"
    refused(lambda: checkpoints.fetch("someone/gpt2"), f"{BROKE_OFF} {got}")
    hub.asked.clear()
    hub.cut.clear()
    folder = checkpoints.fetch("someone/gpt2")
    weights = hub.models["someone/gpt2"]["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == weights
    assert downloads(hub) == [None]
    assert not list(folder.parents[1].glob("blobs/*.incomplete"))


def test_at_once_it_comes_once(hub):
    hub.gate = threading.Barrier(3, timeout=20)
    with ThreadPoolExecutor(3) as pool:
        folders = set(pool.map(checkpoints.fetch, ["someone/gpt2"] * 3))
    assert len(folders) == len(downloads(hub)) == 1


@pytest.mark.parametrize("name", ["gpt2", "someone/gpt2"])
def test_wrong_weights_are_refused_and_do_not_stay(name, hub):
    """What is pinned may come from a mirror; the hub says what all else should be."""
    repo = checkpoints.PUBLISHED.get(name, checkpoints.Published(name)).repo
    right = hub.models[repo]["model.safetensors"]
    want, other = hashlib.sha256(right).hexdigest(), right[:-1] + b"!"
    hub.models[repo]["model.safetensors"] = other
    if name == "someone/gpt2":
        hub.digests["model.safetensors"] = want
    rule = "fetch: the file is not the one that was published, and was removed. "
    got = f"expected sha256 {want}, got {hashlib.sha256(other).hexdigest()}, fix: fetch it again"
    for _ in range(2):
        refused(lambda: checkpoints.fetch(name), rule + got)
    hub.models[repo]["model.safetensors"] = right
    checkpoints.load(checkpoints.fetch(name))


def test_weights_that_changed_in_the_cache_are_refused(hub):
    path = checkpoints.fetch("gpt2") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ShapeError, match="is not the one that was published"):
        checkpoints.fetch("gpt2")
    checkpoints.fetch("gpt2")


BROKE_OFF = "fetch: the download broke off. expected a network that holds, and room on the disk,"
KNOWN = "gpt2, bert, smollm2, or OWNER/NAME of a public model"
LACKS = "the model lacks a file; weights are read as safetensors, never a pickle"
UNREACHED = "the hub cannot be reached, and the file is not in the cache"
# a name, what the hub answers to a file, and what is said: rule, expected, type of the error
REFUSALS = [
    ("a b/c", "config.json", None, "this is no name of a model", KNOWN, "HFValidationError"),
    (
        "a/nothing", "config.json", None,
        "the hub has no such model, or keeps it private", KNOWN, "RepositoryNotFoundError",
    ),
    (
        "someone/llama", "config.json", "GatedRepo",
        "the model is gated: only who was let in gets it", KNOWN, "GatedRepoError",
    ),
    (
        "a/bert", "config.json", "RevisionNotFound",
        "the hub lacks this revision of the model", "main", "RevisionNotFoundError",
    ),
    ("someone/bert", "tokenizer.json", "EntryNotFound", LACKS, "tokenizer.json",
        "RemoteEntryNotFoundError"),
    (
        "someone/bert", "model.safetensors", "Busy",
        UNREACHED, "the file in the cache, or a network", "HfHubHTTPError",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "answer", "rule", "expected", "kind"), REFUSALS)
def test_what_cannot_be_had_is_said_in_one_sentence(name, file, answer, rule, expected, kind, hub):
    hub.errors[file] = answer
    message = f"fetch: {rule}. expected {expected}, got {kind} for {file} of {name}"
    refused(lambda: checkpoints.fetch(name), message)
    assert not downloads(hub)
    assert {path.rpartition("/")[2] for _, path, *_ in hub.asked} <= set(FILES)


def test_a_model_without_weights_as_safetensors_is_refused(hub):
    del hub.models["someone/bert"]["model.safetensors"]
    index = checkpoints.INDEX
    got = f"RemoteEntryNotFoundError for {index} of someone/bert"
    message = f"fetch: {LACKS}. expected {index}, got {got}"
    for _ in range(2):
        refused(lambda: checkpoints.fetch("someone/bert"), message)


def test_a_model_in_several_files_is_fetched_and_comes_once(hub, monkeypatch):
    files = hub.models["someone/bert"]
    parts = {f"model-0000{n}-of-00002.safetensors": {} for n in (1, 2)}
    for number, (name, tensor) in enumerate(load(files.pop("model.safetensors")).items()):
        list(parts.values())[number % 2][name] = tensor
    listed = {name: file for file, tensors in parts.items() for name in tensors}
    files[checkpoints.INDEX] = json.dumps({"metadata": {}, "weight_map": listed}).encode()
    files |= {file: save(tensors) for file, tensors in parts.items()}
    folder = checkpoints.fetch("someone/bert")
    ids = torch.arange(5)[None]
    want = checkpoints.load(checkpoints.shipped("bert"))(ids)
    assert torch.equal(checkpoints.load(folder)(ids), want)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == files
    count = len(hub.asked)
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    assert checkpoints.fetch("someone/bert") == folder
    assert len(hub.asked) == count
    shard = folder / "model-00002-of-00002.safetensors"
    shard.resolve().write_bytes(b"!")
    with pytest.raises(ShapeError, match="is not the one that was published"):
        checkpoints.fetch("someone/bert")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "t5"},
            "fetch: the model_type of config.json is not known. "
            f"expected {listed(checkpoints.FAMILIES)}, got 't5'",
        ),
        (
            {"sliding_window": 9},
            "fetch: sliding_window of config.json is not supported. expected None, got 9",
        ),
        (
            {"rope_scaling": {"rope_type": "yarn"}},
            "load: this kind of RoPE is not supported. expected rope_type 'default' or 'llama3', "
            "of whole heads, got {'rope_type': 'yarn'}",
        ),
        (
            {"logits_scaling": 8.0},
            "fetch: config.json has settings that are not known, and may make another model. "
            "expected none of these, got logits_scaling",
        ),
    ],
)
def test_what_is_not_known_is_refused_before_its_weights_come(config, message, hub):
    files = hub.models["someone/llama"]
    changed = json.dumps(json.loads(files["config.json"]) | config).encode()
    hub.models["someone/else"] = files | {"config.json": changed}
    refused(lambda: checkpoints.fetch("someone/else"), message)
    assert len(hub.asked) == sum(path.endswith("config.json") for _, path, *_ in hub.asked)


def test_a_full_disk_is_said(hub, monkeypatch):
    def fill(url, opened, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_download, "http_get", fill)
    got = "got OSError for config.json of someone/llama"
    refused(lambda: checkpoints.fetch("someone/llama"), f"{BROKE_OFF} {got}")


def test_a_token_stays_with_the_hub(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    checkpoints.fetch("someone/gpt2")
    tokens = {("/cdn/" in path, token) for _, path, _, token in hub.asked}
    assert tokens == {(False, "Bearer hf_secret"), (True, None)}


@pytest.mark.slow
def test_the_variables_of_the_library_are_heeded(hub, tmp_path):
    """In a process of its own, since the library reads them when it is imported."""
    script = "import sys, time; time.sleep = lambda _: None; "  # between tries
    script += "from mha_course.models.checkpoints import fetch; print(fetch(sys.argv[1]))"

    def ask(name, **variables):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        command = [sys.executable, "-c", script, name]
        space = kept | {"HF_HOME": str(tmp_path / "home")} | variables
        return subprocess.run(command, env=space, capture_output=True, text=True, check=False)

    nowhere = ask("someone/gpt2", HF_ENDPOINT="http://127.0.0.1:9")
    absent = "and the file is not in the cache. "
    assert f"fetch: the hub cannot be reached, {absent}" in nowhere.stderr.splitlines()[-1]
    offline = ask("someone/gpt2", HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
    assert f"fetch: HF_HUB_OFFLINE is set, {absent}" in offline.stderr.splitlines()[-1]
    assert not hub.asked
    # as where there is a screen
    online = ask("someone/gpt2", HF_ENDPOINT=hub.url, TQDM_POSITION="-1")
    assert online.stdout.startswith(str(tmp_path / "home" / "hub" / "models--someone--gpt2"))
    assert "model.safetensors: 100%" in online.stderr
    again = ask("someone/gpt2", HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert again.stdout == online.stdout
