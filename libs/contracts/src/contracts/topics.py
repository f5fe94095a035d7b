"""Every topic, declared once: key, value, partitions, retention, writers, readers and what its order promises.

Invariant: a topic's partition count is fixed when it is created; keys are bytes of one documented field.
"""

from msgspec import Struct

from contracts.account import AccountChanged, NumberLoad, OtherEvent
from contracts.campaign import CampaignChanged
from contracts.conversation import MediaStored, MessageHandled
from contracts.inbound import MessageReceived
from contracts.send import SendMessage, SendSettled
from contracts.status import StatusBatch

RECORD_BYTES_MAX = 5 * 1024 * 1024
"""The largest record of any topic: Meta sends bodies of up to 3 MB, and a dead letter wraps one."""
STATUS_RECORD_BYTES_MAX = 64 * 1024
DAY_S = 86_400


class Topic(Struct, frozen=True, kw_only=True):
    """One topic as it must exist on the broker."""

    name: str
    key: str
    value: type | None
    """The struct in each value; None where the value is bytes as they came."""
    retention_s: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    ordering: str
    bytes_max: int = RECORD_BYTES_MAX


INBOUND_MESSAGES = Topic(
    name="inbound-messages",
    key="contact key: <phone_number_id>:<user_id, else wa_id>",
    value=MessageReceived,
    retention_s=7 * DAY_S,
    writers=("ingress",),
    readers=("conversations", "media", "you"),
    ordering="One contact's messages stand in the order in which ingress received them.",
)
MESSAGE_STATUSES = Topic(
    name="message-statuses",
    key="none; the partition is partition_for(wamid)",
    value=StatusBatch,
    retention_s=7 * DAY_S,
    writers=("ingress",),
    readers=("status_aggregator", "you"),
    ordering="One message's statuses stand in the order in which ingress received them; Meta promises none.",
    bytes_max=RECORD_BYTES_MAX,
)
ACCOUNT_EVENTS = Topic(
    name="account-events",
    key="WABA id",
    value=AccountChanged,
    retention_s=30 * DAY_S,
    writers=("ingress",),
    readers=("orchestrator", "you"),
    ordering="One account's events stand in the order in which ingress received them.",
)
OTHER_EVENTS = Topic(
    name="other-events",
    key="phone number id, else WABA id",
    value=OtherEvent,
    retention_s=7 * DAY_S,
    writers=("ingress",),
    readers=("you",),
    ordering="One number's events stand in the order in which ingress received them.",
)
NUMBER_LOAD = Topic(
    name="number-load",
    key="phone number id",
    value=NumberLoad,
    retention_s=3_600,
    writers=("ingress",),
    readers=("sender",),
    ordering="Totals of one ingress process rise in time; readers start at the end and ignore stale ones.",
)
SEND_REQUESTS = Topic(
    name="send-requests",
    key="phone number id; the partition is the number's slot",
    value=SendMessage,
    retention_s=3 * DAY_S,
    writers=("admin", "conversations", "you"),
    readers=("sender",),
    ordering="Requests of one (number, person) pair start in the order of this topic.",
)
SEND_OUTCOMES = Topic(
    name="send-outcomes",
    key="request or row id",
    value=SendSettled,
    retention_s=3 * DAY_S,
    writers=("sender",),
    readers=("you",),
    ordering="None; best effort, Postgres is the truth.",
)
CONVERSATION_EVENTS = Topic(
    name="conversation-events",
    key="contact key",
    value=MessageHandled,
    retention_s=7 * DAY_S,
    writers=("conversations",),
    readers=("you",),
    ordering="One contact's events stand in the order in which its messages were handled, each once or, after a "
    "crash, again with the same event id.",
)
MEDIA_EVENTS = Topic(
    name="media-events",
    key="contact key",
    value=MediaStored,
    retention_s=7 * DAY_S,
    writers=("media",),
    readers=("you",),
    ordering="None across the files of one contact.",
)
CAMPAIGN_EVENTS = Topic(
    name="campaign-events",
    key="campaign id",
    value=CampaignChanged,
    retention_s=30 * DAY_S,
    writers=("orchestrator",),
    readers=("you",),
    ordering="One campaign's changes stand in the order in which they took effect.",
)

_DECLARED = (
    INBOUND_MESSAGES,
    MESSAGE_STATUSES,
    ACCOUNT_EVENTS,
    OTHER_EVENTS,
    NUMBER_LOAD,
    SEND_REQUESTS,
    SEND_OUTCOMES,
    CONVERSATION_EVENTS,
    MEDIA_EVENTS,
    CAMPAIGN_EVENTS,
)
_READ_BY_US = (INBOUND_MESSAGES, MESSAGE_STATUSES, ACCOUNT_EVENTS, SEND_REQUESTS)


def _dead_letters(of: str, writers: tuple[str, ...]) -> Topic:
    return Topic(
        name=f"{of}.dlq",
        key="as the original",
        value=None,
        retention_s=30 * DAY_S,
        writers=writers,
        readers=("admin",),
        ordering="None.",
    )


WEBHOOKS_DLQ = _dead_letters("webhooks", ("ingress",))
TOPICS: tuple[Topic, ...] = (
    *_DECLARED,
    WEBHOOKS_DLQ,
    *(_dead_letters(topic.name, topic.readers[:1]) for topic in _READ_BY_US),
)


def dead_letter_name(topic: str) -> str:
    """Return the name of the dead-letter topic beside `topic`."""
    return f"{topic}.dlq"
