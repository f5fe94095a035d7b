"""Ingress dies with requests under way: whatever was answered 200 is on its topic, and everything has one effect."""

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.campaign_run import Number, Run, a_run
from deploy.local.stack import Stack
from tests.fault.disaster import TIMES, at, elapse, frozen, plan_of, until
from tests.fault.webhooks import Item, a_status, a_text, posting, some_statuses, statuses_on, texts_on

NUMBER = Number("100000000000001", limit=1_000, setting=950)
RECIPIENTS = 500
CONNECTIONS = 200
PAUSE_S = 0.4  # of each connection: about 500 bodies a second
BEFORE_COUNT = 300  # answers of 200 before each death
DEATHS = at(2, 5)
BROKER_SLOW_S = 3.0


def accepted_posts(run: Run) -> list[dict[str, Any]]:
    lines = run.fleet.simulator("/sim/report/messages").decode().splitlines()
    return [post for post in map(json.loads, lines) if post["accepted"]]


def items(posts: list[dict[str, Any]]) -> Iterator[Item]:
    """Texts of 40 people without end, and among them three statuses of each message."""
    statuses = ((word, post) for word in ("read", "sent", "delivered") for post in posts)
    for n in itertools.count():
        yield a_text(NUMBER.phone_number_id, n, sender=f"44770090{n % 40:04}")
        for word, post in itertools.islice(statuses, 1):
            yield some_statuses(NUMBER.phone_number_id, [a_status(word, post)])


@pytest.mark.bco("A02")
@pytest.mark.timeout(150)
def test_bco_a02_whatever_a_dying_ingress_answered_200_is_on_its_topic_and_has_one_effect(
    mortal: Stack, tmp_path: Path
) -> None:
    """Killed under load, killed and terminated while a slow broker holds two hundred requests up."""
    assert mortal.kafka
    bootstrap = mortal.endpoints.kafka_bootstrap
    plan = plan_of(RECIPIENTS // at(1, TIMES), numbers=(NUMBER,), silent=True)
    with a_run(mortal.endpoints, plan, tmp_path) as run:
        run.set_up()
        run.create_and_import()
        run.launch()
        until(run, lambda: run.standing().open_count == 0, "all to be accepted", 60.0)
        posts = accepted_posts(run)
        with posting(
            run.fleet.webhook_url, items(posts), connections=CONNECTIONS, pause_s=PAUSE_S
        ) as account:

            def load() -> None:
                goal = len(account.acknowledged) + BEFORE_COUNT
                until(run, lambda: len(account.acknowledged) >= goal, "load", 30.0)

            def held_up() -> None:
                until(run, lambda: account.in_flight >= 0.9 * CONNECTIONS, "requests to wait", 10.0)

            for death in range(DEATHS):
                load()
                if death % 2:
                    with frozen(mortal.kafka.pid):
                        held_up()
                        run.fleet.kill("ingress")
                else:
                    run.fleet.kill("ingress")
                run.fleet.start("ingress")
                run.fleet.wait_ready("ingress")
            load()
            with frozen(mortal.kafka.pid):
                held_up()
                run.fleet.signal("ingress", signal.SIGTERM)
                elapse(run, BROKER_SLOW_S)
            ended = run.fleet.stop("ingress")["ingress"]
            run.fleet.start("ingress")
            until(run, lambda: len(account.acknowledged) >= 3 * RECIPIENTS + 100, "statuses", 60.0)
            load()
        run.wait_until_quiet()
        counts = run.standing().counts
        prefix = run.fleet.setup.topic_prefix
        texts = texts_on(bootstrap, prefix + "inbound-messages")
        statuses = statuses_on(bootstrap, prefix + "message-statuses", account.posted)
        handled = texts_on(bootstrap, prefix + "conversation-events")
    answers = ", ".join(f"{code or 'none'}: {count}" for code, count in sorted(account.answers.items()))
    again = sum(count > 1 for count in account.posted.values())
    print(f"answers {answers}; {again} of {len(account.posted)} items posted again")
    assert ended.exit_code == 0
    assert again > CONNECTIONS, "requests were under way when it died"
    on_topic = texts + statuses
    assert account.acknowledged == set(account.posted), "in the end each item was answered 200"
    assert not account.acknowledged - on_topic.keys(), "answered 200 and not on its topic"
    assert all(on_topic[name] <= account.posted[name] for name in on_topic), "more records than posts"
    assert set(handled) == set(texts)
    assert set(handled.values()) == {1}, "each message has one effect"
    assert counts["read"] == RECIPIENTS
