"""What Graph tells of tokens, accounts and numbers; words of Meta's stay texts, since new ones appear at any time.

Invariant: a member that Graph leaves out is None or empty here, never a guess.
"""

from msgspec import Struct


class Refused(Struct, frozen=True):
    """Graph answered, and said no; `code` is None where the answer isn't Graph's, such as a gateway's page."""

    http_status: int
    code: int | None
    subcode: int = 0

    @property
    def is_token(self) -> bool:
        """Whether the token is what's wrong: expired, revoked, malformed."""
        return self.code in (0, 102, 104, 190)

    @property
    def is_permission(self) -> bool:
        """Whether the token lacks a permission, or access to the object."""
        return self.code in (3, 10) or (self.code is not None and 200 <= self.code <= 299)

    @property
    def is_unknown_object(self) -> bool:
        """Whether there is no such id, or none that this token may see: Graph doesn't tell these apart."""
        return (self.code == 100 and self.subcode == 33) or self.code in (33, 803)


class GranularScope(Struct, frozen=True):
    """A permission with the objects that it is limited to; none: all of them."""

    scope: str
    target_ids: tuple[str, ...] = ()


class TokenInfo(Struct, frozen=True, kw_only=True):
    """A token, as `/debug_token` describes it."""

    is_valid: bool
    app_id: str = ""
    expires_at: int = 0
    """Unix seconds; 0: never."""
    scopes: tuple[str, ...] = ()
    granular_scopes: tuple[GranularScope, ...] = ()


class ListedNumber(Struct, frozen=True, kw_only=True):
    """A number in the list of its WABA."""

    id: str
    status: str = ""
    quality_rating: str = ""


class Throughput(Struct, frozen=True):
    """`STANDARD` (80 messages a second), `HIGH` (1,000) or `NOT_APPLICABLE`."""

    level: str = ""


class WebhookConfiguration(Struct, frozen=True, kw_only=True):
    """Where a number's webhooks may go: the most specific one counts."""

    phone_number: str = ""
    whatsapp_business_account: str = ""
    application: str = ""

    @property
    def effective(self) -> str:
        """The address that counts; empty: none is set."""
        return self.phone_number or self.whatsapp_business_account or self.application


class NumberNode(Struct, frozen=True, kw_only=True):
    """A number's own node: the fields that aren't told of every number, or not by every version."""

    id: str
    throughput: Throughput | None = None
    whatsapp_business_manager_messaging_limit: str = ""
    webhook_configuration: WebhookConfiguration | None = None


class App(Struct, frozen=True):
    """An application."""

    id: str = ""


class SubscribedApp(Struct, frozen=True, kw_only=True):
    """An application that hears of a WABA."""

    whatsapp_business_api_data: App


class SubscribedField(Struct, frozen=True):
    """A webhook field that an application asked for."""

    name: str


class Subscription(Struct, frozen=True, kw_only=True):
    """What an application asked for of one kind of object, and where it is to be told."""

    object: str
    callback_url: str = ""
    active: bool = False
    fields: tuple[SubscribedField, ...] = ()
