"""The simulated Graph API without its sockets: each POST is judged at once, each accepted message gets its journey.

Invariant: every POST of a message leaves one record, or is counted as unrecorded; nothing here waits.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from hmac import compare_digest
from typing import NamedTuple

from msgspec import Struct

from simulator import payload
from simulator.graph_reads import messaging_fault
from simulator.journey import Status, StatusStep, Step, TextStep, hastened, journey, scripted
from simulator.payload import StatusUpdate, TextUpdate, Update
from simulator.records import InboundRecord, MessageRecord, StatusRecord
from simulator.refusal import HTML_PAGE, Refusal, error_body, http_status
from simulator.scenario import Number, Scenario, Template
from simulator.script import ACCEPTING, Behaviour, Plan, Rule, Script, is_throttled
from simulator.throughput import Throughput
from simulator.validation import Order, ReadMark, read_order

UNKNOWN_NUMBER = Refusal(
    100, "Unsupported request. The object does not exist or cannot be loaded due to missing permissions.", 33
)
NO_TOKEN = Refusal(190, "The access token is missing or wrong.")
THROTTLED = Refusal(130429, "The throughput of this number is used up.")
FULL = Refusal(2, "The simulator remembers no more messages.")


class Manner(StrEnum):
    """How an answer leaves, or does not."""

    REPLY = "reply"
    HANG = "hang"
    RESET = "reset"


class Answer(Struct, frozen=True):
    """What the edge does: wait `delay_s`, then act in this manner. With `after`, reply only once that status is
    delivered (or the edge's patience is over)."""

    http_status: int
    body: bytes = b""
    delay_s: float = 0.0
    manner: Manner = Manner.REPLY
    content_type: bytes = b"application/json; charset=UTF-8"
    retry_after_s: int | None = None
    after: StatusRecord | None = None


class _Due(NamedTuple):
    at: float
    n: int
    number: Number
    message: MessageRecord
    steps: tuple[Step, ...]


class World:
    """All state of one run: numbers with their limiters, records, rules, and the journeys under way.

    `now` is monotonic seconds, `unix` the wall clock; both come from the caller.
    """

    def __init__(self, scenario: Scenario, *, seed: int, access_token: str, run_id: int) -> None:
        self._initial = scenario
        self._seed = seed
        self._token = f"Bearer {access_token}".encode()
        self._run_id = run_id
        self._posts_n = 0
        self._inbound_n = 0
        self._forget(scenario)

    def _forget(self, scenario: Scenario) -> None:
        self.messages: list[MessageRecord] = []
        self.inbound: list[InboundRecord] = []
        self.throughputs: dict[str, Throughput] = {}
        self.outcomes: Counter[str] = Counter()
        self.read_marks = 0
        self.unrecorded = 0
        self._script = Script(self._seed)
        self._due: list[_Due] = []
        self._urgent: list[Update] = []
        self._started: float | None = None
        self.numbers: dict[str, Number] = {}
        self.adopt(scenario)

    def reset(self) -> None:
        """Forget all that was seen, planned and ruled, and return to the first scenario. Wamids stay unique."""
        self._forget(self._initial)

    def adopt(self, scenario: Scenario) -> None:
        """Live by another scenario from now on; what numbers have counted so far stays."""
        self.scenario = scenario
        self.numbers = {number.phone_number_id: number for number in scenario.numbers}
        self._templates: dict[tuple[str, str], Template] = {
            (template.name, template.language): template for template in scenario.templates
        }
        for number in scenario.numbers:
            known = self.throughputs.get(number.phone_number_id)
            if known is None:
                self.throughputs[number.phone_number_id] = Throughput(number.limit_per_s)
            else:
                known.limit_per_s = number.limit_per_s

    def rule(self, rule: Rule) -> None:
        """Let a rule decide about the recipient's next POSTs."""
        self._script.add(rule)

    # --- a POST ---

    def arrive(
        self, phone_number_id: str, authorization: bytes, raw: bytes, *, now: float, unix: float
    ) -> Answer:
        """Judge one `POST /{phone_number_id}/messages`."""
        if len(self.messages) >= self.scenario.records_max:
            self.unrecorded += 1
            return Answer(503, error_body(FULL, self._trace_id()))
        message = MessageRecord(self._next_n(), phone_number_id, unix)
        number = self._sender(phone_number_id, authorization)
        if isinstance(number, Refusal):
            return self._refused(message, number)
        order = read_order(raw, number, self._templates)
        if isinstance(order, ReadMark):
            self.read_marks += 1
            return Answer(200, b'{"success":true}', self._usual_delay_s())
        if isinstance(order, Order):
            _note(message, order)
        if not self._lets_through(phone_number_id, now):
            return self._throttled(message)
        if isinstance(order, Refusal):
            return self._refused(message, order)
        return self._played(number, message, order, now)

    def _sender(self, phone_number_id: str, authorization: bytes) -> Number | Refusal:
        """The number that the token may send from."""
        if not compare_digest(authorization, self._token):
            return NO_TOKEN
        number = self.numbers.get(phone_number_id)
        if number is None:
            return UNKNOWN_NUMBER
        return messaging_fault(self.scenario.account, number) or number

    def _lets_through(self, phone_number_id: str, now: float) -> bool:
        if self._started is None:
            self._started = now
        closed = is_throttled(self.scenario.faults, self._seed, phone_number_id, now - self._started)
        return self.throughputs[phone_number_id].arrive(now, closed=closed)

    def _throttled(self, message: MessageRecord) -> Answer:
        faults = self.scenario.faults
        return self._refused(
            message,
            THROTTLED,
            status=faults.throttle_http_status,
            retry_after_s=faults.throttle_retry_after_s,
        )

    def _played(self, number: Number, message: MessageRecord, order: Order, now: float) -> Answer:
        plan = self._script.plan(order.who, self.scenario.faults, self.scenario.latency)
        if self.scenario.canonicalise:
            message.to = payload.wa_id(order.who)
        message.behaviour = plan.behaviour.value
        after = None
        if plan.behaviour in ACCEPTING:
            after = self._accept(number, message, plan, now)
        return self._answer(message, order, plan, after)

    def _answer(self, message: MessageRecord, order: Order, plan: Plan, after: StatusRecord | None) -> Answer:
        late_s = self.scenario.faults.late_s
        match plan.behaviour:
            case Behaviour.NORMAL | Behaviour.WEBHOOK_BEFORE_ANSWER | Behaviour.TIMEOUT_AFTER_ACCEPT:
                late = plan.behaviour is Behaviour.TIMEOUT_AFTER_ACCEPT
                self._remember(message, 200, 0)
                assert message.wamid is not None
                body = payload.accepted_body(
                    order.to, message.to, message.wamid, is_template=order.kind == "template"
                )
                return Answer(200, body, late_s if late else plan.latency_s, after=after)
            case Behaviour.HANG_WITHOUT_ACCEPT:
                self._remember(message, 0, 0)
                return Answer(0, delay_s=late_s, manner=Manner.HANG)
            case Behaviour.RESET_AFTER_ACCEPT | Behaviour.RESET_BEFORE_ACCEPT:
                self._remember(message, 0, 0)
                return Answer(0, delay_s=plan.latency_s, manner=Manner.RESET)
            case Behaviour.HTTP_500_HTML | Behaviour.HTTP_500_HTML_AFTER_ACCEPT:
                self._remember(message, 500, 0)
                return Answer(500, HTML_PAGE, plan.latency_s, content_type=b"text/html; charset=utf-8")
            case _:
                return self._refused_by_plan(message, plan)

    def _refused_by_plan(self, message: MessageRecord, plan: Plan) -> Answer:
        codes = {Behaviour.HTTP_503_CODE2: 2, Behaviour.HTTP_500_CODE131016: 131016}
        code = codes.get(plan.behaviour, plan.code)
        rule = plan.rule
        return self._refused(
            message,
            Refusal(code, "This message was refused by the scenario."),
            status=rule.http_status if rule else None,
            retry_after_s=rule.retry_after_s if rule else None,
            delay_s=plan.latency_s,
        )

    def _refused(
        self,
        message: MessageRecord,
        refusal: Refusal,
        *,
        status: int | None = None,
        retry_after_s: int | None = None,
        delay_s: float | None = None,
    ) -> Answer:
        status = status or http_status(refusal.code)
        self._remember(message, status, refusal.code)
        return Answer(
            status,
            error_body(refusal, self._trace_id()),
            self._usual_delay_s() if delay_s is None else delay_s,
            retry_after_s=retry_after_s,
        )

    def _remember(self, message: MessageRecord, status: int, code: int) -> None:
        message.http_status = status
        message.code = code
        self.messages.append(message)
        self.outcomes[f"code_{code}" if code else message.behaviour] += 1

    def _accept(self, number: Number, message: MessageRecord, plan: Plan, now: float) -> StatusRecord | None:
        """Give the message a wamid and a journey; the status that has to outrun the answer, if there is one."""
        message.accepted = True
        message.wamid = payload.wamid(message.to, self._run_id, message.n)
        self.throughputs[number.phone_number_id].accept(now)
        odds, rule = self.scenario.journeys, plan.rule
        if rule is None or (rule.statuses is None and not rule.texts):
            steps = journey(odds, plan.rng)
        else:
            statuses = (Status.SENT, Status.DELIVERED) if rule.statuses is None else rule.statuses
            steps = scripted(odds, statuses, rule.failed_code, rule.texts, plan.rng)
        first: StatusRecord | None = None
        if plan.behaviour is Behaviour.WEBHOOK_BEFORE_ANSWER:
            head, *rest = hastened(steps)
            assert isinstance(head, StatusStep)
            update = self._status(number, message, head)
            self._urgent.append(update)
            steps, first = tuple(rest), update.record
        self._schedule(number, message, steps, now)
        return first

    # --- journeys ---

    def _schedule(
        self, number: Number, message: MessageRecord, steps: tuple[Step, ...], began: float
    ) -> None:
        if steps:
            item = _Due(began + steps[0].told_s, message.n, number, message, steps)
            heapq.heappush(self._due, item)

    @property
    def journeys_count(self) -> int:
        """Messages that still have something to tell."""
        return len(self._due)

    def next_due(self) -> float | None:
        """When the next update is to be told; None when nothing is planned."""
        if self._urgent:
            return 0.0
        return self._due[0].at if self._due else None

    def due_updates(self, now: float, room: int) -> Iterator[tuple[Update, bool]]:
        """At most `room` updates whose time has come, oldest first; True marks one that an answer waits for."""
        while self._urgent and room > 0:
            room -= 1
            yield self._urgent.pop(0), True
        while self._due and room > 0 and self._due[0].at <= now:
            room -= 1
            due = heapq.heappop(self._due)
            step, rest = due.steps[0], due.steps[1:]
            self._schedule(due.number, due.message, rest, due.at - step.told_s)
            if isinstance(step, StatusStep):
                yield self._status(due.number, due.message, step), False
            else:
                yield self._answered(due.number, due.message, step, now), False

    def _status(self, number: Number, message: MessageRecord, step: StatusStep) -> StatusUpdate:
        timestamp = int(message.arrived_at + step.happens_s)
        record = StatusRecord(step.status.value, timestamp, step.code, step.carries_callback_data)
        message.statuses.append(record)
        return StatusUpdate(number, message, record, step.carries_pricing)

    def _answered(self, number: Number, message: MessageRecord, step: TextStep, now: float) -> TextUpdate:
        return self.write(
            number,
            message.to,
            step.text,
            order=step.order,
            timestamp=int(message.arrived_at + step.happens_s),
            answers=message.wamid,
            now=now,
        )

    def write(
        self,
        number: Number,
        sender: str,
        text: str,
        *,
        order: int,
        timestamp: int,
        now: float,
        answers: str | None = None,
    ) -> TextUpdate:
        """A person writes to a number; the message counts into the number's load."""
        self._inbound_n += 1
        record = InboundRecord(
            n=self._inbound_n,
            wamid=payload.wamid(sender, self._run_id, self._inbound_n, inbound=True),
            phone_number_id=number.phone_number_id,
            sender=sender,
            order=order,
            text=text,
            stop=text.strip().lower() == "stop",
            timestamp=timestamp,
            answers=answers,
        )
        self.inbound.append(record)
        self.throughputs[number.phone_number_id].receive(now)
        return TextUpdate(number, record)

    def _usual_delay_s(self) -> float:
        return self.scenario.latency.base_ms / 1_000

    def _next_n(self) -> int:
        self._posts_n += 1
        return self._posts_n

    def _trace_id(self) -> str:
        return f"A{self._run_id & 0xFFFFFFFF:08x}{self._posts_n:010x}"


def _note(message: MessageRecord, order: Order) -> None:
    message.to = order.who
    message.kind = order.kind
    message.callback_data = order.callback_data
    message.template = order.template
    message.language = order.language
    message.params = order.params
    message.category = order.category
