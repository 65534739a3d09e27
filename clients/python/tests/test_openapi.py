"""The description of the HTTP API, in the hands of tools that are not ours."""

from __future__ import annotations

import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from conftest import Start, echo
from scheduler import Scheduler

PACKAGE = "lingua_scheduler_client"


def description(scheduler: Scheduler) -> dict[str, Any]:
    status, body = scheduler.call("GET", "/openapi.json")
    assert status == 200
    assert isinstance(body, dict)
    return body


def mistakes(spec: dict[str, Any]) -> list[str]:
    return [str(error.message) for error in OpenAPIV31SpecValidator(spec).iter_errors()]


def test_a_strict_validator_finds_nothing_and_would_find_a_response_without_description(scheduler: Scheduler) -> None:
    spec = description(scheduler)
    assert mistakes(spec) == []
    broken = copy.deepcopy(spec)
    del broken["paths"]["/api/v1/nodes"]["get"]["responses"]["200"]["description"]
    assert mistakes(broken) != []


@pytest.fixture
def generated(scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client that openapi-python-client made of the description, without a warning."""
    (tmp_path / "openapi.json").write_text(json.dumps(description(scheduler)))
    # It knows this kind of text by another name.
    overrides = {"content_type_overrides": {"application/openmetrics-text": "text/plain"}}
    (tmp_path / "config.json").write_text(json.dumps(overrides))
    made = tmp_path / "client"
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"]
    options = [
        "--path",
        "openapi.json",
        "--config",
        "config.json",
        "--meta",
        "none",
        "--output-path",
        str(made / PACKAGE),
    ]
    made.mkdir()
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        [*command, *options],
        cwd=tmp_path,
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    monkeypatch.syspath_prepend(str(made))
    return made


def part(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


async def test_a_generated_client_calls_the_scheduler(scheduler: Scheduler, start: Start, generated: Path) -> None:
    await start(echo, node_id="generated-1")
    async with part("client").Client(base_url=scheduler.url) as client:
        listed = await part("api.admin.list_nodes").asyncio(client=client, state="ready", limit=10)
        assert isinstance(listed, part("models.nodes_body").NodesBody)
        assert [node.node_id for node in listed.nodes] == ["generated-1"]

        request = part("models.dispatch_request").DispatchRequest
        job = request(session_id="s", src_lang="en", tgt_lang="es", audio="AAEC", audio_format="opus")
        job.options = part("models.dispatch_options").DispatchOptions(wait_ms=20000)
        done = await part("api.jobs.dispatch_f2f").asyncio(client=client, body=job, idempotency_key="k-1")
        assert done.job.state == "DONE"
        again = await part("api.jobs.dispatch_f2f").asyncio(client=client, body=job, idempotency_key="k-1")
        assert again.job_id == done.job_id

        refused = await part("api.admin.get_node").asyncio(client=client, id="nobody")
        assert isinstance(refused, part("models.error_body").ErrorBody)
        assert refused.error == "NOT_FOUND"
        assert refused.x_request_id
