"""Requests that wait for something wait for a moment only."""

import schemathesis

SHORT_MS = 20


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
