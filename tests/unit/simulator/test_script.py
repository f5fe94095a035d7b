"""Faults: reproducible whatever the order of arrival, as frequent as the odds, and ruled where a test rules."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.scenario import FAULT_NAMES, Faults, Latency, Scenario, merged, parse
from simulator.script import Behaviour, Rule, Script, is_throttled, latency_of

MANY = Faults(**dict.fromkeys(FAULT_NAMES, 0.09))
PEOPLE = [f"1555010{n:04d}" for n in range(200)]


def plans(people: list[str], seed: int = 5) -> dict[str, list[Behaviour]]:
    script = Script(seed)
    found: dict[str, list[Behaviour]] = {}
    for who in people:
        found.setdefault(who, []).append(script.plan(who, MANY, Latency()).behaviour)
    return found


@given(st.integers(min_value=0, max_value=1_000))
def test_the_order_of_arrival_changes_nobodys_faults(shuffle_seed):
    people = PEOPLE[:40] * 2
    shuffled = list(people)
    Random(shuffle_seed).shuffle(shuffled)
    assert plans(shuffled) == plans(people)


def test_another_seed_gives_other_faults():
    assert plans(PEOPLE, 5) != plans(PEOPLE, 6)


def test_faults_are_as_frequent_as_their_odds():
    script = Script(1)
    odds = Faults(http_500_html=0.2, rejected=0.1, rejected_codes=(131009, 131021))
    drawn = [script.plan(str(10**9 + n), odds, Latency()) for n in range(5_000)]
    counts = Counter(plan.behaviour for plan in drawn)
    assert 0.18 < counts[Behaviour.HTTP_500_HTML] / 5_000 < 0.22
    assert 0.08 < counts[Behaviour.REJECTED] / 5_000 < 0.12
    assert counts.keys() == {Behaviour.NORMAL, Behaviour.HTTP_500_HTML, Behaviour.REJECTED}
    assert {plan.code for plan in drawn if plan.behaviour is Behaviour.REJECTED} == {131009, 131021}


def test_rules_act_in_turn_so_many_times_and_on_their_recipient_alone():
    script = Script(1)
    script.add(Rule(recipient="15550100042", behaviour=Behaviour.RESET_AFTER_ACCEPT, times=2))
    script.add(Rule(recipient="15550100042", behaviour=Behaviour.REJECTED, code=131056))
    met = [script.plan("15550100042", Faults(), Latency()) for _ in range(4)]
    other = script.plan("15550100043", Faults(), Latency())
    assert [plan.behaviour.value for plan in met] == ["reset_after_accept"] * 2 + ["rejected", "normal"]
    assert met[2].code == 131056
    assert other.behaviour is Behaviour.NORMAL


@given(st.integers(min_value=0), st.floats(min_value=0, max_value=3))
def test_latency_is_positive_and_capped(seed, sigma):
    assert 0 < latency_of(Latency(base_ms=50, sigma=sigma, max_ms=400), Random(seed)) <= 0.4


@given(st.integers(min_value=0, max_value=10_000))
def test_throttle_windows_take_their_share_of_each_period(seed):
    faults = Faults(throttle_every_s=10, throttle_s=2)
    seconds = [n / 20 for n in range(200)]
    closed = [is_throttled(faults, seed, "300000000000001", s) for s in seconds]
    assert 39 <= sum(closed) <= 41
    assert closed == [is_throttled(faults, seed, "300000000000001", s + 10) for s in seconds]


def test_no_throttle_windows_unless_asked_for():
    assert not any(is_throttled(Faults(), 1, "1", n / 10) for n in range(1_000))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"fautls":{}}',
        b'{"faults":{"rejected":2}}',
        b'{"faults":{"rejected":0.6,"http_500_html":0.6}}',
        b'{"faults":{"throttle_every_s":1,"throttle_s":1}}',
        b'{"faults":{"rejected":0.1,"rejected_codes":[]}}',
        b'{"journeys":{"silent":0.6,"failed":0.6}}',
        b'{"numbers":[{"phone_number_id":"x"}]}',
        b"{",
    ],
)
def test_a_wrong_scenario_is_refused(raw):
    with pytest.raises(ValueError, match=r"."):
        parse(raw)


def test_a_change_of_the_scenario_merges_sections_numbers_and_templates():
    first = parse(
        b'{"numbers":[{"phone_number_id":"1","display_phone_number":"15550109000","waba_id":"2"}],'
        b'"templates":[{"name":"a","language":"en","body_params":1}],"faults":{"late_s":3}}'
    )
    number = {"phone_number_id": "1", "display_phone_number": "15550109000", "waba_id": "2", "limit_per_s": 5}
    second = merged(
        first,
        {
            "numbers": [number, number | {"phone_number_id": "9"}],
            "templates": [{"name": "a", "language": "de"}],
            "faults": {"rejected": 0.5},
        },
    )
    assert [(n.phone_number_id, n.limit_per_s) for n in second.numbers] == [("1", 5), ("9", 5)]
    assert [(t.name, t.language) for t in second.templates] == [("a", "en"), ("a", "de")]
    assert (second.faults.late_s, second.faults.rejected) == (3, 0.5)
    assert merged(first, {}) == first
    with pytest.raises(ValueError, match="unknown"):
        merged(Scenario(), {"unknown": 1})
