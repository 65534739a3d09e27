"""``lingua-node check``: what the machine has, and whether the scheduler takes the node."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import runpy
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from lingua_socket import Lost

from . import machine, wire
from . import node as nodes
from .link import Link, Refused
from .node import DEFAULT_URL, EXIT_REFUSED, Node, socket_url, token_source

ANSWER_SECONDS = 10.0
UNREACHABLE = 1
"""The exit code if there is no scheduler, or none that takes work."""

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class Subject:
    """What is checked."""

    url: str
    """Of the node socket."""
    token: str | None
    node_id: str | None
    identity: wire.Identity | None
    """What the node can do, if its script was named."""

    def http(self, path: str) -> str:
        """The address of a call."""
        parts = urlsplit(self.url)
        scheme = {"ws": "http", "wss": "https"}[parts.scheme]
        return urlunsplit((scheme, parts.netloc, parts.path.removesuffix("/ws/node") + path, "", ""))


class _Found(BaseException):
    """Leaves a script at its ``Node.run()``. Not an :class:`Exception`: scripts may catch those."""

    def __init__(self, node: Node) -> None:
        self.node = node


def node_of(script: str) -> Node:
    """Runs a script up to its ``Node.run()``; ``ValueError`` if there is none."""

    def found(node: Node) -> None:
        raise _Found(node)

    nodes.instead_of_running = found
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Found as left:
        return left.node
    except OSError as error:
        raise ValueError(f"{script}: {error.strerror or error}") from error
    finally:
        nodes.instead_of_running = None
        sys.path.pop(0)
    raise ValueError(f"{script} ended without Node(…).run()")


def subject_of(script: str | None, url: str | None, node_id: str | None, token_file: str | None) -> Subject:
    """What is to be checked, by the script, the options and the environment, in this order."""
    node = None if script is None else node_of(script)
    if token_file is not None:
        token: str | None = Path(token_file).read_text(encoding="utf-8").strip()
    else:
        token = (node._newest_token if node is not None else token_source(None))()
    if url is None and node is not None:
        address = node._url
    else:
        address = socket_url(url or os.environ.get("LINGUA_URL") or DEFAULT_URL)
    name = node_id or (node.node_id if node is not None else None) or subject_in(token)
    return Subject(address, token or None, name, node._identity if node is not None else None)


def subject_in(token: str | None) -> str | None:
    """Whose a token is, by its own word; the scheduler decides whether that is true."""
    try:
        part = (token or "").split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else None


def check(subject: Subject, say: Say) -> int:
    """Says what there is and what is missing. 0: all is well."""
    say_machine(machine.look(), say)
    if subject.identity is None:
        say("languages", "not known: name the node's script, lingua-node check my_node.py")
    else:
        say_abilities(subject.identity, say)
    reached = reach(subject, say)
    if reached != 0:
        return reached
    return standing(subject, say)


def say_machine(found: machine.Machine, say: Say) -> None:
    """Processors, memory, GPUs and engines."""
    memory = "" if found.memory_gb is None else f", {found.memory_gb} GB of memory"
    say("machine", f"{found.system}, {found.cpu_cores} cores{memory}")
    for gpu in found.gpus:
        say("GPU", f"{gpu.name}, {gpu.memory_gb} GB, driver {gpu.driver}")
    if not found.gpus:
        say("GPU", f"none ({found.no_gpu})")
    say("engines", ", ".join(found.engines) or "none of those that are known here")


def say_abilities(identity: wire.Identity, say: Say) -> None:
    """What the node declares."""
    languages = identity.languages
    say("languages", languages.describe())
    for what, tags in (("recognises", languages.asr), ("repairs", languages.semantic), ("speaks", languages.tts)):
        say("", f"{what} {', '.join(tags) or 'nothing'}")
    say("slots", str(identity.slots))


def reach(subject: Subject, say: Say) -> int:
    """Whether there is a scheduler that takes work."""
    began = time.monotonic()
    status, body = call(subject.http("/ready"), None)
    took = (time.monotonic() - began) * 1000
    where = subject.http("")
    if status is None:
        say("scheduler", f"{where} cannot be reached: {body['detail']}")
        return UNREACHABLE
    if status != 200:
        say("scheduler", f"{where} takes no work now: {body.get('detail') or f'HTTP {status}'}")
        return UNREACHABLE
    say("scheduler", f"{where} is ready, answered in {took:.0f} ms")
    return 0


def standing(subject: Subject, say: Say) -> int:
    """Whether the scheduler takes the node, without disturbing one that works."""
    known: dict[str, Any] | None = None
    if subject.node_id is not None:
        status, known = own_view(subject)
        if status in (401, 403):
            say("token", f"refused: {known.get('error')}: {known.get('detail')}")
            return EXIT_REFUSED
        if status == 200 and known.get("connected") is True:
            say("node", f"{subject.node_id} is connected; its registration is not tried a second time")
            say_standing(known, say)
            return 0
    if subject.identity is None:
        say("node", "not tried: without the node's script its abilities are not known")
        return 0
    try:
        name = asyncio.run(try_registration(subject, subject.identity))
    except Refused as refused:
        say("node", f"refused: {refused}")
        return EXIT_REFUSED
    except Lost as lost:
        say("node", f"not taken now: {lost}")
        return UNREACHABLE
    say("node", f"taken: it registered as {name} and left again")
    status, known = own_view(Subject(subject.url, subject.token, name, subject.identity))
    if status == 200:
        say_useful(known, say)
    return 0


def own_view(subject: Subject) -> tuple[int | None, dict[str, Any]]:
    """What the scheduler tells an owner of a node."""
    return call(subject.http(f"/v1/node/{quote(subject.node_id or '', safe='')}"), subject.token)


def say_standing(view: dict[str, Any], say: Say) -> None:
    """How a connected node stands."""
    slots = view.get("slots") or {}
    say("", f"{view.get('state')}, {slots.get('used')} of {slots.get('open')} open slots in use")
    say("", f"{view.get('done')} jobs done, {view.get('failed')} failed")
    for why in view.get("why_idle") or ["nothing is in the way of jobs"]:
        say("", why)
    for failure in (view.get("failures") or [])[:3]:
        say("", f"failed: {failure.get('code')} (job {failure.get('job_id')})")
    say_useful(view, say)


def say_useful(view: dict[str, Any], say: Say) -> None:
    """What is asked for in vain."""
    for wanted in view.get("useful_if") or []:
        say("useful if", f"it served {wanted.get('direction')}; it lacks {', '.join(wanted.get('lacks') or [])}")


async def try_registration(subject: Subject, identity: wire.Identity) -> str:
    """Registers as one that is not ready yet, so that no job comes, and leaves. The name it was taken under."""
    link = await Link.open(subject.url, subject.token)
    try:
        answer = await link.register(wire.register(identity, subject.node_id, [], "registering"))
        return wire.text_of(answer, "node_id", subject.node_id or "")
    finally:
        await link.close()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for this scheduler alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def call(url: str, token: str | None) -> tuple[int | None, dict[str, Any]]:
    """Status and JSON of a GET; ``None`` and a ``detail`` without an answer."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=ANSWER_SECONDS) as answer:
            return answer.status, _object(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        return error.code, _object(error.read(1 << 20))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return None, {"detail": str(reason)[:200]}


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
