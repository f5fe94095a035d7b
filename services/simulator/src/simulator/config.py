"""The simulator's knobs; what its world is like stands in the scenario file."""

from typing import Annotated

from msgspec import Meta, Struct

from runtime.config import Secret


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read from `SIMULATOR_*`."""

    webhook_url: Annotated[str, Meta(description="Where webhooks go; need not be up at the start.")]
    app_secret: Annotated[Secret, Meta(description="Signs the webhooks.")]
    access_token: Annotated[Secret, Meta(description="The one bearer token that is right.")]
    verify_token: Annotated[Secret | None, Meta(description="Sent in the GET handshake.")] = None
    scenario_file: Annotated[str, Meta(description="Path of the scenario JSON; empty: all defaults.")] = ""
    seed: Annotated[int, Meta(ge=0, description="Same seed, same faults and journeys.")] = 1
    host: Annotated[str, Meta(description="Loopback, unless the network is closed: /sim asks no token.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65_535, description="0 asks for a free one.")] = 8090
    log_level: Annotated[str, Meta(description="debug, info, warning or error.")] = "info"
