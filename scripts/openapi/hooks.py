"""What schemathesis cannot know: names of things that are there, and that nobody has time to wait."""

import json
import os
import urllib.error
import urllib.request
import zlib

import schemathesis

SHORT_MS = 20

# So many cases have the same job before there is a new one.
CASES_PER_JOB = 8


class Stage:
    """A node that comes by HTTP, a job that it has, and speech that waits for one. Cases may break them; they are made
    again every few cases."""

    def __init__(self):
        self.url = os.environ["LINGUA_STAGE_URL"]
        self.session = os.environ.get("LINGUA_STAGE_SESSION")
        self.node = os.environ.get("LINGUA_STAGE_NODE")
        self.uses = 0
        self.name = "by-http"
        # The simulated node of run.py.
        self.names = {"id": "sim", "job_id": None, "ref": None}
        self.assigned = {}

    def ask(self, token, method, path, body=None):
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=data)
        request.add_header("Content-Type", "application/octet-stream" if isinstance(body, bytes) else "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError:
            # The case before may have drained the node or filled it: then there is nothing new.
            return None

    def use(self, has_job):
        self.uses += 1
        if self.uses % CASES_PER_JOB != 1:
            return
        # One that failed too often is left alone. Who has a token has one name.
        self.name = "by-http" if self.node else f"by-http-{self.uses}"
        self.ask(self.node, "POST", "/v1/node/register", {**RIGHT["/v1/node/register"], "node_id": self.name, "running": []})
        if not has_job:
            return
        if self.names["job_id"]:
            self.ask(self.session, "DELETE", f"/v1/job/{self.names['job_id']}")
        job = self.ask(self.session, "POST", "/v1/dispatch/f2f", {
            "session_id": "s-1", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAgAD", "audio_format": "pcm16",
            "options": {"preferred_node_id": self.name, "strict": True, "require_tts": False},
        })
        speech = self.ask(self.session, "POST", "/v1/audio", b"\0\1" * 8)
        self.names["job_id"] = job and job["job_id"]
        self.names["ref"] = speech and speech["audio_ref"].removeprefix("blob://")
        # The node knows it by another name. Cancels of earlier ones may come before it.
        self.assigned = {}
        while job and (message := self.ask(self.node, "GET", f"/v1/node/{self.name}/jobs?wait_ms=1000")):
            if message["type"] == "job_assign":
                self.assigned = {key: message.get(key) for key in ("job_id", "attempt_id", "lease_token")}
                break


stage = Stage()

# What the description cannot say of the fields of a body, so that every other one means something.
RIGHT = {
    "/v1/dispatch/f2f": {"session_id": "s-1", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAgAD", "audio_ref": None,
                         "audio_format": "pcm16", "mode": None, "lang_a": None, "lang_b": None, "request_id": None,
                         "trace_id": None, "dialect": None},
    "/api/v1/revocations": {"jti": "nobodys", "role": None, "subject": None},
    "/v1/node/register": {"node_id": "by-http", "health": None, "semantic_langs": ["en", "zh"], "asr_langs": None,
                          "tts_langs": None, "nmt_pairs": "any", "max_concurrent_jobs": 2, "endpoint": None,
                          "capability_by_type": None},
    "/v1/node/heartbeat": {"node_id": "by-http", "health": None, "semantic_langs": None, "asr_langs": None, "tts_langs": None,
                           "nmt_pairs": None, "max_concurrent_jobs": None, "capability_by_type": None, "running": None},
    "/v1/job/ack": {"node_id": "by-http"},
    "/v1/job/done": {"node_id": "by-http"},
    "/v1/job/fail": {"node_id": "by-http"},
}


def every_other(value):
    """Half of all values, and always the same ones."""
    return zlib.crc32(repr(value).encode("utf-8", "surrogatepass")) % 2 == 1


@schemathesis.hook
def before_call(context, case, **kwargs):
    body = case.body if isinstance(case.body, dict) else None
    named = set(case.path_parameters or {}) | set(body or {})
    if named & {"id", "node_id", "job_id", "ref"}:
        stage.use(has_job=bool(named & {"job_id", "ref"}) or case.path == "/v1/node/{id}/jobs")
    for name, value in (case.path_parameters or {}).items():
        real = stage.names.get(name)
        if real is not None and every_other(value):
            case.path_parameters[name] = real
    if case.path == "/v1/node/{id}/jobs" and every_other(case.query):
        case.path_parameters["id"] = stage.name
    if case.query and isinstance(case.query.get("wait_ms"), int):
        case.query["wait_ms"] = min(case.query["wait_ms"], SHORT_MS)
    if body is None:
        return
    if every_other(body):
        body.update(RIGHT.get(case.path, {}))
        if "node_id" in body:
            body["node_id"] = stage.name
        if case.path.startswith("/v1/job/"):
            body.update(stage.assigned)
    options = body.get("options")
    if isinstance(options, dict):
        for name, least in (("wait_ms", 0), ("deadline_ms", 100)):
            if isinstance(options.get(name), int):
                options[name] = min(options[name], least + SHORT_MS)
