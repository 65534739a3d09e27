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


@schemathesis.hook
def map_body(context, body):
    options = body.get("options") if isinstance(body, dict) else None
    if isinstance(options, dict):
        for name, least in (("wait_ms", 0), ("deadline_ms", 100)):
            if isinstance(options.get(name), int):
                options[name] = min(options[name], least + SHORT_MS)
    return body
