"""Starts a scheduler for each call of its description, and schemathesis against it. See scripts/schemathesis."""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINGUA = Path(os.environ["LINGUA_BIN"]).resolve()
SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"

# Ten thousand cases of a call may take long; no token is to expire meanwhile.
LIFE_S = 86_400

# Every schemathesis that is at work.
asking = set()

# It has no end, and so no answer to look at; the tests hold it to the description.
ENDLESS = "GET /api/v1/events"


def main():
    parser = argparse.ArgumentParser(prog="schemathesis")
    parser.add_argument("--cases", type=int, default=50, help="cases for each call")
    parser.add_argument("--roles", type=int, help="cases for each call of each role, if not as many")
    parser.add_argument("--calls", default="", help="only calls that have this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="calls at a time")
    wish = parser.parse_args()
    # What is running is stopped by whoever started it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    failed = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(wish.jobs) as pool:
        keys = Keys(Path(name))
        with server(Path(name), None) as url:
            calls = [call for call in calls_of(url) if wish.calls in call]
        try:
            for role in [None, *keys.tokens]:
                cases = wish.cases if role is None else wish.roles or wish.cases
                print(f"\n== {role or 'open to everybody'}, up to {cases} cases for each call", flush=True)
                outcomes = pool.map(lambda call: one(call, role, cases, keys), calls)
                failed += sum(not good for good in outcomes)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in list(asking):
                child.terminate()
            raise
    print(f"\n{failed} calls failed" if failed else "\nevery answer was as described")
    return 1 if failed else 0


class Keys:
    """Who may come in where keys are asked for."""

    def __init__(self, at):
        lingua("token", "key", "--name", "test", "--out", at)
        self.config = at / "lingua.toml"
        self.config.write_text(
            f'[identity]\nkey_files = ["{at}/test.pub.pem"]\nsession_life_s = {LIFE_S}\nadmin_life_s = {LIFE_S}\n'
        )
        mint = ("token", "mint", "--key", at / "test.key.pem", "--life-s", LIFE_S, "--subject")
        self.sim = lingua(*mint, "sim", "--role", "node")
        self.tokens = {
            "nobody": None,
            "a session": lingua(*mint, "app", "--role", "session", "--tenant", "acme"),
            "a node": lingua(*mint, "by-http", "--role", "node"),
            "an administrator": lingua(*mint, "ann", "--role", "admin"),
        }


def one(call, role, cases, keys):
    """Lets all cases of a call be made; whether every answer was right."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        at = Path(name)
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
        arguments = []
        url = running.enter_context(server(at, keys.config if role else None))
        environment["LINGUA_STAGE_URL"] = url
        if role:
            environment["LINGUA_STAGE_SESSION"] = keys.tokens["a session"]
            environment["LINGUA_STAGE_NODE"] = keys.tokens["a node"]
            if token := keys.tokens[role]:
                arguments += ["--header", f"Authorization: Bearer {token}"]
        running.enter_context(node(at, url, keys.sim if role else None))
        run = subprocess.Popen(
            [SCHEMATHESIS, "--config-file", HERE / "checks.toml", "run", f"{url}/openapi.json",
             "--include-name", call, "--max-examples", str(cases), "--phases", "examples,coverage,fuzzing",
             "--request-timeout", "20", "--no-color", *arguments],
            cwd=at, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        asking.add(run)
        said, _ = run.communicate()
        asking.discard(run)
        alive = urllib.request.urlopen(f"{url}/health", timeout=20).read() == b"OK"
    made = re.search(r"(\d+) generated", said)
    good = run.returncode == 0 and made is not None and bool(alive)
    told = f"{made[1] if made else '?':>6} cases  {time.monotonic() - began:6.0f} s"
    print(f"{'ok    ' if good else 'FAILED'} {call:<36} {told}", flush=True)
    if not good:
        print(said, flush=True)
    return good


def calls_of(url):
    paths = json.loads(urllib.request.urlopen(f"{url}/openapi.json", timeout=20).read())["paths"]
    calls = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    # What takes longest first: who waits for the last one waits less.
    return sorted((call for call in calls if call != ENDLESS), key=lambda call: not call.startswith("POST"))


def lingua(*arguments):
    run = subprocess.run([LINGUA, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout.strip()


@contextmanager
def process(log, *arguments, **environment):
    with open(log, "w") as out:
        child = subprocess.Popen([LINGUA, *arguments], stdout=out, stderr=out, env={**os.environ, **environment})
    try:
        yield child
    finally:
        child.terminate()
        child.wait(timeout=30)


@contextmanager
def server(at, config):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    log = at / "server.log"
    arguments = ["--config", str(config)] if config else []
    with process(log, "serve", "--listen", listen, *arguments, LINGUA_LOG="error") as child:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://{listen}/ready", timeout=5)
                break
            except OSError:
                if child.poll() is not None:
                    sys.exit(f"the scheduler ended:\n{log.read_text()}")
                time.sleep(0.05)
        else:
            sys.exit(f"the scheduler is not ready:\n{log.read_text()}")
        yield f"http://{listen}"


@contextmanager
def node(at, url, token):
    """One that serves and answers at once."""
    environment = {"LINGUA_TOKEN": token} if token else {}
    arguments = ["--url", url, "--name", "sim", "--p50-ms", "5", "--p99-ms", "20"]
    with process(at / "node.log", "node", *arguments, **environment):
        yield


if __name__ == "__main__":
    sys.exit(main())
