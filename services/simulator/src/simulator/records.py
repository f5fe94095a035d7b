"""What the witness remembers of each POST, status and text: compact, outside the garbage collector, and never printed."""

from msgspec import Struct, field


class StatusRecord(Struct, gc=False):
    """A status that was told. `acked` counts deliveries answered 200. `first_posted_at` (the first delivery's begin)
    and `first_acked_at` are unix seconds."""

    status: str
    timestamp: int
    code: int = 0
    callback_data_sent: bool = True
    posted: int = 0
    acked: int = 0
    first_posted_at: float | None = None
    first_acked_at: float | None = None
    gave_up: bool = False


class MessageRecord(Struct, gc=False):
    """A POST to `/messages`. `to` is digits or a BSUID, empty where the body had none that could be read;
    `http_status` is 0 where no answer was meant to arrive."""

    n: int
    phone_number_id: str
    arrived_at: float
    to: str = ""
    kind: str = ""
    callback_data: str | None = None
    template: str | None = None
    language: str | None = None
    params: tuple[str, ...] = ()
    category: str = "service"
    behaviour: str = "normal"
    accepted: bool = False
    wamid: str | None = None
    http_status: int = 0
    code: int = 0
    statuses: list[StatusRecord] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"MessageRecord({self.n})"


class InboundRecord(Struct, gc=False):
    """A message a person wrote, the `order`-th of its row; `answers` is the wamid it follows."""

    n: int
    wamid: str
    phone_number_id: str
    sender: str
    order: int
    text: str
    stop: bool
    timestamp: int
    answers: str | None = None
    posted: int = 0
    acked: int = 0
    first_posted_at: float | None = None
    first_acked_at: float | None = None
    gave_up: bool = False

    def __repr__(self) -> str:
        return f"InboundRecord({self.n})"
