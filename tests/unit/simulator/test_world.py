"""The world without sockets: what each POST gets, what is remembered, what is told when."""

import json

import pytest

from simulator.callbacks import Tally
from simulator.journey import Status
from simulator.payload import StatusUpdate, TextUpdate
from simulator.report import ndjson_chunks, report
from simulator.scenario import Scenario, merged
from simulator.script import Behaviour, Rule
from simulator.world import Answer, Manner, World

NUMBER_ID = "300000000000001"
TO = "15550100042"
SCENE = {
    "numbers": [
        {
            "phone_number_id": NUMBER_ID,
            "display_phone_number": "15550109000",
            "waba_id": "200000000000001",
            "limit_per_s": 3,
        }
    ],
    "latency": {"sigma": 0},
}


def a_world(**sections) -> World:
    return World(merged(Scenario(), SCENE | sections), seed=3, access_token="sesame", run_id=7)


def post(world, *, now=0.0, to=TO, number=NUMBER_ID, token="sesame", **more) -> Answer:
    body = {"messaging_product": "whatsapp", "to": f"+{to}", "type": "text", "text": {"body": "hello"}} | more
    return world.arrive(
        number, f"Bearer {token}".encode(), json.dumps(body).encode(), now=now, unix=1_790_000_000 + now
    )


def code_of(answer: Answer) -> int:
    return json.loads(answer.body)["error"]["code"]


def told(world, until: float) -> list:
    return [update for update, _ in world.due_updates(until, 1_000_000)]


def test_an_accepted_message_is_remembered_with_all_that_a_checker_needs():
    world = a_world()
    answer = post(world, biz_opaque_callback_data="job7:row91")
    [message] = world.messages
    assert (answer.http_status, answer.delay_s) == (200, 0.05)
    assert json.loads(answer.body)["messages"] == [{"id": message.wamid}]
    assert (message.to, message.callback_data, message.accepted) == (TO, "job7:row91", True)
    assert message.arrived_at == 1_790_000_000


@pytest.mark.parametrize("token", ["", "other", "sesame "])
def test_a_wrong_token_is_a_401_with_code_190(token):
    world = a_world()
    answer = post(world, token=token)
    assert (answer.http_status, code_of(answer)) == (401, 190)
    assert not world.messages[0].accepted


def test_an_unknown_number_is_a_400_with_code_100_and_subcode_33():
    answer = post(a_world(), number="1")
    assert answer.http_status == 400
    assert json.loads(answer.body)["error"]["error_subcode"] == 33


def test_the_fourth_arrival_of_a_second_is_throttled_and_the_next_second_is_free():
    world = a_world()
    answers = [post(world, now=n * 0.2) for n in range(6)]
    assert [answer.http_status for answer in answers] == [200, 200, 200, 429, 429, 200]
    assert code_of(answers[3]) == 130429
    assert world.messages[3].to == TO
    assert world.throughputs[NUMBER_ID].throttled == 2


def test_inbound_messages_take_the_numbers_throughput():
    world = a_world()
    number = world.numbers[NUMBER_ID]
    for order in range(3):
        world.write(number, TO, "hi", order=order, timestamp=1, now=0.0)
    assert post(world, now=0.5).http_status == 429
    assert post(world, now=1.0).http_status == 200


def test_status_and_header_of_a_throttle_follow_the_scenario():
    world = a_world(faults={"throttle_http_status": 400, "throttle_retry_after_s": 7})
    answer = [post(world) for _ in range(4)][-1]
    assert (answer.http_status, answer.retry_after_s, code_of(answer)) == (400, 7, 130429)


RULED = [
    ("timeout_after_accept", 200, Manner.REPLY, True),
    ("hang_without_accept", 0, Manner.HANG, False),
    ("reset_after_accept", 0, Manner.RESET, True),
    ("reset_before_accept", 0, Manner.RESET, False),
    ("http_500_html", 500, Manner.REPLY, False),
    ("http_500_html_after_accept", 500, Manner.REPLY, True),
    ("http_503_code2", 503, Manner.REPLY, False),
    ("http_500_code131016", 500, Manner.REPLY, False),
    ("rejected", 400, Manner.REPLY, False),
    ("webhook_before_answer", 200, Manner.REPLY, True),
]


@pytest.mark.parametrize(("behaviour", "status", "manner", "accepted"), RULED)
def test_a_rule_decides_about_one_post(behaviour, status, manner, accepted):
    world = a_world()
    rule = Rule(recipient=TO, behaviour=Behaviour(behaviour), statuses=(Status.SENT, Status.DELIVERED))
    world.rule(rule)
    answer = post(world)
    [message] = world.messages
    assert (answer.http_status, answer.manner) == (status, manner)
    assert (message.accepted, message.wamid is not None) == (accepted, accepted)
    assert (message.behaviour, message.http_status) == (behaviour, status)
    statuses = [update.record.status for update in told(world, 1e9)]
    assert statuses == (["sent", "delivered"] if accepted else [])
    assert post(world, now=5).http_status == 200


def test_a_late_answer_is_later_than_a_client_waits():
    world = a_world(faults={"late_s": 8})
    world.rule(Rule(recipient=TO, behaviour=Behaviour.TIMEOUT_AFTER_ACCEPT))
    assert post(world).delay_s == 8


def test_a_rejection_can_choose_code_status_and_header():
    world = a_world()
    world.rule(
        Rule(recipient=TO, behaviour=Behaviour.REJECTED, code=131056, http_status=403, retry_after_s=4)
    )
    answer = post(world)
    assert (answer.http_status, answer.retry_after_s, code_of(answer)) == (403, 4, 131056)


def test_the_webhook_that_outruns_the_answer_is_due_at_once():
    world = a_world()
    world.rule(
        Rule(recipient=TO, behaviour=Behaviour.WEBHOOK_BEFORE_ANSWER, statuses=(Status.SENT, Status.READ))
    )
    answer = post(world, now=5.0)
    [(update, urgent)] = list(world.due_updates(5.0, 10))
    assert urgent
    assert answer.after is update.record
    assert update.record.status == "sent"


def test_updates_are_told_when_they_are_due_and_no_more_than_there_is_room_for():
    world = a_world(journeys={"late": 0})
    world.rule(
        Rule(recipient=TO, statuses=(Status.SENT, Status.DELIVERED, Status.READ), texts=("one", "two"))
    )
    post(world, now=100.0)
    assert told(world, 100.0) == []
    due = world.next_due()
    assert due is not None
    [first] = told(world, due)
    assert first.record.status == "sent"
    assert len(list(world.due_updates(1e9, 1))) == 1
    rest = told(world, 1e9)
    assert [type(update) for update in rest] == [StatusUpdate, TextUpdate, TextUpdate]
    assert world.next_due() is None
    assert [record.order for record in world.inbound] == [1, 2]
    assert world.inbound[0].answers == world.messages[0].wamid
    timestamps = [record.timestamp for record in world.messages[0].statuses]
    assert timestamps == sorted(timestamps)
    assert timestamps[0] >= 1_790_000_100


def test_the_same_seed_gives_the_same_run_whatever_the_order():
    def run(people: list[str]) -> dict[str, tuple]:
        world = a_world(
            numbers=[SCENE["numbers"][0] | {"limit_per_s": 1_000}],
            faults={"http_500_html": 0.2, "rejected": 0.2, "reset_after_accept": 0.2},
        )
        for who in people:
            post(world, to=who)
        told(world, 1e9)
        return {
            m.to: (m.behaviour, m.code, tuple((s.status, s.timestamp, s.code) for s in m.statuses))
            for m in world.messages
        }

    people = [f"1555010{n:04d}" for n in range(100)]
    assert run(people) == run(people[::-1])


def test_read_marks_are_no_messages():
    world = a_world()
    answer = post(world, status="read", message_id="wamid.IN")
    assert json.loads(answer.body) == {"success": True}
    assert (world.messages, world.read_marks) == ([], 1)


def test_records_are_bounded():
    world = a_world(records_max=2)
    assert [post(world, now=n).http_status for n in range(4)] == [200, 200, 503, 503]
    assert (len(world.messages), world.unrecorded) == (2, 2)


def test_a_brazilian_number_comes_back_in_its_canonical_form():
    answer = post(a_world(canonicalise=True), to="5511912345678")
    [contact] = json.loads(answer.body)["contacts"]
    assert contact == {"input": "+5511912345678", "wa_id": "551112345678"}


def test_a_changed_limit_holds_at_once_and_keeps_the_counts():
    world = a_world()
    post(world)
    world.adopt(merged(world.scenario, {"numbers": [SCENE["numbers"][0] | {"limit_per_s": 1}]}))
    assert post(world, now=0.1).http_status == 429
    assert world.throughputs[NUMBER_ID].arrivals.total == 2


def test_a_reset_forgets_everything_but_never_repeats_a_wamid():
    world = a_world()
    post(world)
    wamid = world.messages[0].wamid
    world.reset()
    assert (world.messages, world.next_due()) == ([], None)
    post(world)
    assert world.messages[0].wamid != wamid


def test_the_report_counts_what_happened():
    world = a_world()
    for n in range(5):
        post(world, now=n * 0.25)
    post(world, now=9, to="1")
    summary = report(world, seed=3, webhooks=Tally(), updates_pending=0)
    [number] = summary.numbers
    assert (number.arrivals, number.accepted, number.throttled) == (6, 4, 1)
    assert (number.arrivals_largest_second, number.accepted_largest_second) == (4, 3)
    assert (number.accepted_span_s, number.accepted_mean_per_s) == (1.0, 4.0)
    assert summary.outcomes == {"normal": 4, "code_130429": 1, "code_131009": 1}


def test_rows_are_paged_without_gap_or_overlap():
    world = a_world(numbers=[SCENE["numbers"][0] | {"limit_per_s": 5_000}])
    for _ in range(1_203):
        post(world)
    rows = [
        json.loads(line) for chunk in ndjson_chunks(world.messages, 0, None) for line in chunk.splitlines()
    ]
    assert [row["n"] for row in rows] == list(range(1, 1_204))
    page = b"".join(ndjson_chunks(world.messages, 1_000, 150)).splitlines()
    assert [json.loads(line)["n"] for line in page] == list(range(1_001, 1_151))
    assert list(ndjson_chunks(world.messages, 9_999, 10)) == []


def test_records_do_not_print_people():
    world = a_world()
    post(world)
    assert TO not in repr(world.messages[0])
