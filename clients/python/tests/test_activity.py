"""Which lines a node says, decided from values alone."""

from __future__ import annotations

import logging

import pytest

from conftest import Start, echo
from lingua_node.activity import EVERY, Activity, Losses
from lingua_node.wire import Languages
from scheduler import Scheduler, until


def test_a_busy_node_says_one_line_a_minute_and_not_one_a_job() -> None:
    activity = Activity(0.0)
    assert activity.began(1.0, "en into es") == "working: a job from en into es"
    lines = []
    for second in range(2, 130):
        assert activity.began(float(second), "en into es") is None
        activity.ended(second + 0.5, ok=second % 10 != 0)
        lines.append(activity.looked(float(second + 1), 1))
    assert [line for line in lines if line is not None] == [
        "working: 53 jobs done and 6 failed in the last 60 s, 1 running",
        "working: 54 jobs done and 6 failed in the last 60 s, 1 running",
    ]


def test_a_node_without_jobs_for_a_minute_waits_and_says_so_once() -> None:
    activity = Activity(0.0)
    activity.began(0.0, "en into es")
    activity.ended(1.0, ok=True)
    assert activity.looked(30.0, 0) is None
    assert activity.looked(1.0 + EVERY, 0) == "waiting for jobs: 1 done and 0 failed so far"
    assert activity.looked(1.0 + 5 * EVERY, 0) is None
    assert activity.began(500.0, "en into es") is not None, "and when it works again"


def test_why_it_is_idle_is_said_when_it_changes() -> None:
    activity = Activity(0.0)
    assert activity.told([]) is None
    said = activity.told(["an administrator drains it"])
    assert said == "waiting for jobs; the scheduler says: an administrator drains it"
    assert activity.told(["an administrator drains it"]) is None
    assert activity.told([]) == "nothing is in the way of jobs"


def test_a_scheduler_that_stays_away_is_a_line_a_minute() -> None:
    losses = Losses()
    assert losses.found(0.0) is None
    assert losses.lost(0.0, "the connection broke", 0.1) == "no scheduler: the connection broke; trying again in 0.1 s"
    lines = [losses.lost(float(second), "refused", 5.0) for second in range(5, 126, 5)]
    said = [line for line in lines if line is not None]
    assert said == [
        "still no scheduler after 60 s: refused; trying again",
        "still no scheduler after 120 s: refused; trying again",
    ]
    assert losses.found(127.0) == "found the scheduler after 127.0 s"


def test_directions_are_described_and_long_lists_cut() -> None:
    pairs = [("en", f"x{number}") for number in range(10)]
    described = Languages(asr=["en"], semantic=["en"], nmt_pairs=pairs).describe()
    assert described == "en->x0, en->x1, en->x2, en->x3, en->x4, en->x5, en->x6, en->x7 and 2 more"
    assert Languages(asr=["en"], semantic=["en"], nmt_pairs="any").describe() == "from en into any language"


async def test_a_node_says_why_the_scheduler_sends_it_nothing(
    scheduler: Scheduler, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lingua_node")
    await start(echo, node_id="idle", heartbeat_s=0.1)
    await scheduler.ask("POST", "/api/v1/nodes/idle/drain")
    await until(lambda: "scheduler says: an administrator drains it" in caplog.text, "the node says why")
    await scheduler.ask("POST", "/api/v1/nodes/idle/resume")
    await until(lambda: "nothing is in the way of jobs" in caplog.text, "and that it is over")
    assert caplog.text.count("waiting for jobs; ") == 1
