"""What schemathesis cannot know: names of things that are there, and that nobody has time to wait."""

import zlib

import schemathesis

SHORT_MS = 20

# The simulated node of scripts/schemathesis, and what the calls before this one made.
known = {"id": "sim", "job_id": None, "ref": None}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Every other name is one that leads somewhere, so that good answers are looked at, too."""
    for name, value in (path_parameters or {}).items():
        real = known.get(name)
        if real is not None and zlib.crc32(str(value).encode("utf-8", "surrogatepass")) % 2:
            path_parameters[name] = real
    return path_parameters


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code == 200 and case.method == "POST":
        if case.path == "/v1/dispatch/f2f":
            known["job_id"] = response.json()["job_id"]
        elif case.path == "/v1/audio":
            known["ref"] = response.json()["audio_ref"].removeprefix("blob://")


@schemathesis.hook
def map_query(context, query):
    if query and isinstance(query.get("wait_ms"), int):
        query["wait_ms"] = min(query["wait_ms"], SHORT_MS)
    return query


# What the description cannot say of the fields of a body, so that every other one means something.
RIGHT = {
    "/v1/dispatch/f2f": {"session_id": "s-1", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAgAD", "audio_ref": None,
                         "audio_format": "pcm16", "mode": None, "lang_a": None, "lang_b": None, "request_id": None,
                         "trace_id": None, "dialect": None},
    "/api/v1/revocations": {"jti": "nobodys", "role": None, "subject": None},
    "/v1/node/register": {"node_id": "by-http", "health": None, "semantic_langs": ["en"], "asr_langs": None, "tts_langs": None,
                          "nmt_pairs": "any", "max_concurrent_jobs": 2, "endpoint": None, "capability_by_type": None},
    "/v1/node/heartbeat": {"node_id": "by-http", "health": None, "semantic_langs": None, "asr_langs": None, "tts_langs": None,
                           "nmt_pairs": None, "max_concurrent_jobs": None, "capability_by_type": None, "running": None},
    "/v1/job/ack": {"node_id": "by-http"},
    "/v1/job/done": {"node_id": "by-http"},
    "/v1/job/fail": {"node_id": "by-http"},
}


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    if zlib.crc32(repr(body).encode("utf-8", "surrogatepass")) % 2:
        body = {**body, **RIGHT.get(context.operation.path, {})}
        if "job_id" in body and known["job_id"]:
            body["job_id"] = known["job_id"]
    options = body.get("options")
    if isinstance(options, dict):
        for name, least in (("wait_ms", 0), ("deadline_ms", 100)):
            if isinstance(options.get(name), int):
                options[name] = min(options[name], least + SHORT_MS)
    return body
