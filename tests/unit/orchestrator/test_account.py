"""What an event of an account means: a template's state, or something that is only counted."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.account import AccountChanged, TemplateChanged, TemplateState
from orchestrator.account import NAME_MAX, REASON_MAX, TEMPLATE_FIELD, Kind, happened_at_s, meaning

NOW_S = 1_796_040_000.0
SAID = {
    "event": "PAUSED",
    "message_template_id": 300_000_000_000_001,
    "message_template_name": "qa_promo",
    "message_template_language": "en",
    "reason": "NONE",
}


def an_event(
    value: object, *, field: str = TEMPLATE_FIELD, waba: str = "2", **times: float
) -> AccountChanged:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return AccountChanged(event_id="e", waba_id=waba, field=field, raw=msgspec.Raw(raw), **times)


def test_a_templates_new_state_is_read() -> None:
    assert meaning(an_event(SAID, timestamp_s=100, received_at_s=200.0), now_s=NOW_S) == TemplateChanged(
        waba_id="2", name="qa_promo", language="en", state=TemplateState.PAUSED, reason="NONE", at_s=100.0
    )


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("REINSTATED", TemplateState.APPROVED),
        ("APPROVED", TemplateState.APPROVED),
        ("DISABLED", TemplateState.DISABLED),
        ("REJECTED", TemplateState.REJECTED),
    ],
)
def test_each_word_leaves_a_state(word: str, state: TemplateState) -> None:
    found = meaning(an_event({**SAID, "event": word}), now_s=NOW_S)
    assert isinstance(found, TemplateChanged)
    assert found.state is state


def test_one_language_is_one_template_however_it_is_written() -> None:
    found = meaning(an_event({**SAID, "message_template_language": "en-US"}), now_s=NOW_S)
    assert isinstance(found, TemplateChanged)
    assert found.language == "en_US"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (an_event({**SAID, "event": "FLAGGED"}), Kind.TEMPLATE_OTHER),
        (an_event({**SAID, "event": "A_WORD_OF_TOMORROW"}), Kind.TEMPLATE_OTHER),
        (an_event({}, field="account_update"), Kind.ACCOUNT_UPDATE),
        (an_event({}, field="phone_number_quality_update"), Kind.PHONE_NUMBER_QUALITY_UPDATE),
        (an_event({}, field="something_new"), Kind.OTHER),
        (an_event({}), Kind.UNREADABLE),
        (an_event(b"\xff"), Kind.UNREADABLE),
        (an_event(b"[" * 100_000), Kind.UNREADABLE),
        (an_event({**SAID, "event": 7}), Kind.UNREADABLE),
        (an_event({**SAID, "message_template_name": ""}), Kind.UNREADABLE),
        (an_event({**SAID, "message_template_name": "a\0"}), Kind.UNREADABLE),
        (an_event({**SAID, "message_template_name": "x" * (NAME_MAX + 1)}), Kind.UNREADABLE),
    ],
)
def test_what_changes_no_state_is_of_a_kind(event: AccountChanged, kind: Kind) -> None:
    assert meaning(event, now_s=NOW_S) is kind


@given(st.dictionaries(st.sampled_from([*SAID, "other"]), st.text(max_size=8) | st.integers() | st.none()))
def test_nothing_that_it_says_raises(value: dict[str, object]) -> None:
    found = meaning(an_event({**SAID, **value}), now_s=NOW_S)
    assert isinstance(found, Kind | TemplateChanged)
    if isinstance(found, TemplateChanged) and found.reason:
        assert len(found.reason) <= REASON_MAX
        assert "\0" not in found.reason


@pytest.mark.parametrize(
    ("told_s", "received_s", "happened_s"),
    [
        (100, 200.0, 100.0),
        (300, 200.0, 200.0),  # a clock that is ahead must not outlast the truth
        (0, 200.0, 200.0),
        (100, 0.0, 100.0),
        (0, 0.0, NOW_S),
        (0, NOW_S + 60.0, NOW_S),
    ],
)
def test_it_happened_when_meta_says_and_never_after_it_arrived(
    told_s: int, received_s: float, happened_s: float
) -> None:
    event = an_event(SAID, timestamp_s=told_s, received_at_s=received_s)
    assert happened_at_s(event, now_s=NOW_S) == happened_s
