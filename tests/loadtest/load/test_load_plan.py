"""A plan says everything about a load beforehand, and is the same after a round over the disk."""

import json
from dataclasses import replace
from typing import Any

import pytest

from regard.loadtest.load.plan import Plan, plan_from_json
from regard.loadtest.load.traffic import TrafficClass


def test_a_plan_survives_its_file() -> None:
    classes = (TrafficClass(name="a", weight=2, model="m"), TrafficClass(name="b", pictures=2, size="small"))
    plan = Plan(address="h:1", rate=7, workers=3, classes=classes)
    assert plan_from_json(plan.to_json()) == plan


def test_a_plan_from_before_there_were_pictures_is_read() -> None:
    value = json.loads(Plan(address="h:1").to_json())
    del value["pictures"]
    for name in ("pictures", "size"):
        del value["classes"][0][name]
    assert plan_from_json(json.dumps(value)) == Plan(address="h:1")


def test_the_number_of_requests_is_known_beforehand() -> None:
    plan = Plan(address="h:1", rate=50, duration=4, warmup=1, workers=3)
    assert plan.planned() == sum(len(plan.schedule(worker)) for worker in range(3))
    assert json.loads(plan.to_json())["planned_requests"] == plan.planned()


def test_a_closed_loop_plans_no_number() -> None:
    assert Plan(address="h:1", loop="closed", users=7, workers=3).planned() is None


def test_seed_and_texts_show_in_the_fingerprints() -> None:
    def prints(plan: Plan) -> tuple[str, str]:
        value = json.loads(plan.to_json())
        return value["schedule_sha256"], value["payloads_sha256"]

    plan = Plan(address="h:1")
    schedule, payloads = prints(plan)
    assert prints(replace(plan, seed=2))[0] != schedule
    assert prints(replace(plan, classes=(TrafficClass(name="short", length="short"),)))[1] != payloads
    assert prints(replace(plan, address="other:1")) == (schedule, payloads)


@pytest.mark.parametrize(
    "wrong",
    [
        {"loop": "half open"},
        {"arrivals": "bursts"},
        {"rate": 0},
        {"rate": float("inf")},
        {"duration": -1},
        {"deadline": float("nan")},
        {"warmup": -0.1},
        {"users": 0},
        {"workers": 0},
        {"connections": 0},
        {"classes": ()},
    ],
)
def test_an_impossible_plan_is_refused_by_name(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(ValueError, match="class" if name == "classes" else name):
        Plan(address="h:1", **wrong)


def test_a_plan_with_unknown_fields_or_of_another_schema_is_refused() -> None:
    value = json.loads(Plan(address="h:1").to_json())
    with pytest.raises(ValueError, match="unknown fields: surprise"):
        plan_from_json(json.dumps({**value, "surprise": 1}))
    with pytest.raises(ValueError, match="schema version 99"):
        plan_from_json(json.dumps({**value, "schema_version": 99}))
