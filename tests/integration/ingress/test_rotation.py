"""An app secret and a verify token that are renewed while webhooks come in."""

import asyncio

from runtime.config import Secret, Secrets
from tests.integration.ingress.reading import (
    a_body,
    a_client,
    a_config,
    a_text,
    a_value,
    create_topics,
    post,
    signature_of,
    until_ready,
)


async def test_old_and_new_secrets_both_count_during_a_rotation_and_the_old_one_not_after_it(
    kafka_bootstrap, topic_prefix
):
    secrets, verify = Secrets("old"), Secret("qa-verify")
    config = a_config(kafka_bootstrap, topic_prefix, app_secrets=secrets, verify_token=verify)
    body = a_body(a_value(messages=[a_text("wamid.1")]))

    async def statuses(client):
        return [
            (await post(client, body, **{"X-Hub-Signature-256": signature_of(body, secret)})).status_code
            for secret in ("old", "new")
        ]

    async with a_client(config) as (client, app):
        await asyncio.to_thread(create_topics, kafka_bootstrap, topic_prefix)
        await until_ready(app)
        assert await statuses(client) == [200, 401]
        secrets.renew("new, old")
        assert await statuses(client) == [200, 200]
        secrets.renew("new")
        assert await statuses(client) == [401, 200]
        asked = {"hub.mode": "subscribe", "hub.challenge": "c", "hub.verify_token": "qa-verify-2"}
        assert (await client.get("/webhook", params=asked)).status_code == 403
        verify.renew("qa-verify-2")
        assert (await client.get("/webhook", params=asked)).text == "c"
