"""The listening that every other test is held to."""

from __future__ import annotations

import json

from conftest import Start, echo
from described import differences, overheard
from scheduler import Scheduler


async def test_what_a_node_says_and_hears_is_overheard(scheduler: Scheduler, start: Start) -> None:
    with overheard() as said:
        await start(echo, node_id="heard")
        _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
        assert answer["job"]["state"] == "DONE"
    kinds = {(sender, json.loads(text)["type"]) for _, sender, text in said}
    assert {("node", "node_register"), ("scheduler", "node_register_ack"), ("scheduler", "job_assign")} < kinds
    assert {("node", "job_ack"), ("node", "job_result")} < kinds


async def test_what_is_not_as_described_is_noticed(scheduler: Scheduler) -> None:
    description = Scheduler.description
    assert description is not None

    def wrong(sender: str, message: dict[str, object]) -> list[str]:
        return differences(description, [("/ws/node", sender, json.dumps(message))])

    assert wrong("scheduler", {"type": "heartbeat_ack", "server_time_ms": 1}) == []
    assert wrong("scheduler", {"type": "heartbeat_ack", "server_time_ms": 1, "more": 1}) != []
    assert wrong("scheduler", {"type": "heartbeat_ack"}) != []
    assert wrong("scheduler", {"type": "nonsense"}) != []
    assert wrong("node", {"type": "node_error", "mood": "bad"}) == []
    assert wrong("node", {"type": "job_ack"}) != []
