"""Statuses of messages we sent, and the callback data by which a status finds its row without a stored wamid.

Invariant: callback data of another application, or of another installation, parses to None and is left alone.
"""

import re

import msgspec
from msgspec import Struct


class StatusReported(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One element of `statuses[]`; `raw` is its JSON as it came."""

    event_id: str
    phone_number_id: str
    waba_id: str
    wamid: str
    status: str
    """`sent`, `delivered`, `read`, `played`, `failed`, or a word that nobody knows yet."""
    timestamp_s: int
    """Meta's own time, Unix seconds."""
    recipient_id: str | None = None
    recipient_user_id: str | None = None
    callback_data: str | None = None
    code: int | None = None
    """The first error's code, of a `failed`."""
    raw: msgspec.Raw = msgspec.Raw(b"null")

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"StatusReported(event_id={self.event_id!r})"


class StatusBatch(Struct, frozen=True):
    """The value of one `message-statuses` record: statuses of one partition, gathered as a group commit."""

    statuses: tuple[StatusReported, ...]


class CampaignRow(Struct, frozen=True):
    """A recipient's attempt: one POST."""

    campaign_id: int
    seq: int
    attempt: int


class RequestRow(Struct, frozen=True):
    """A single message's attempt: one POST."""

    row_id: int
    attempt: int


INSTALLATION_PATTERN = r"^[a-z0-9][a-z0-9-]{0,31}\Z"
INSTALLATION = re.compile(INSTALLATION_PATTERN)
_GRAMMAR = re.compile(
    r"sl1:(?P<installation>[a-z0-9][a-z0-9-]{0,31}):"
    r"(?:c:(?P<campaign>\d{1,18}):(?P<seq>\d{1,18}):(?P<attempt>\d{1,9})|r:(?P<row>\d{1,18}):(?P<tried>\d{1,9}))\Z",
    re.ASCII,
)


def callback_data(installation: str, row: CampaignRow | RequestRow) -> str:
    """Return the `biz_opaque_callback_data` of one attempt; Meta echoes it in each status (≤ 512 characters)."""
    assert INSTALLATION.match(installation)
    if isinstance(row, CampaignRow):
        return f"sl1:{installation}:c:{row.campaign_id}:{row.seq}:{row.attempt}"
    return f"sl1:{installation}:r:{row.row_id}:{row.attempt}"


def parse_callback_data(installation: str, text: str | None) -> CampaignRow | RequestRow | None:
    """Return the row that `text` names, or None when it isn't ours."""
    found = _GRAMMAR.match(text) if text else None
    if found is None or found["installation"] != installation:
        return None
    if found["campaign"] is not None:
        return CampaignRow(int(found["campaign"]), int(found["seq"]), int(found["attempt"]))
    return RequestRow(int(found["row"]), int(found["tried"]))
