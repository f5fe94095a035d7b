"""How many webhooks, and how many statuses, one ingress process makes durable a second.

Server, load and broker share this machine, so the numbers to use are the ratios within one run: the same load against a
bare Starlette application that checks the HMAC, parses the JSON and stores nothing.
`python tests/bench/ingress_rate.py [--seconds 4] [--warm-up 8] [--connections 32]`
"""

import argparse
import asyncio
import hashlib
import hmac
import json
import multiprocessing
import secrets
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deploy.local.stack import running_stack
from ingress.app import open_app
from ingress.config import Config
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings
from runtime.config import Secret
from runtime.health import serve_http

SECRET = "bench-secret"


def a_body(count: int) -> bytes:
    statuses = [
        {
            "id": f"wamid.{secrets.token_urlsafe(42)}",
            "status": "delivered",
            "timestamp": "1796040000",
            "recipient_id": "447700900001",
            "biz_opaque_callback_data": "sl1:bench:c:1:2:3",
            "pricing": {"billable": True, "pricing_model": "PMP", "type": "regular", "category": "marketing"},
        }
        for _ in range(count)
    ]
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550100000", "phone_number_id": "100000000000001"},
        "statuses": statuses,
    }
    entry = [{"id": "200000000000001", "changes": [{"field": "messages", "value": value}]}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()


def a_request(body: bytes) -> bytes:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = (
        "POST /webhook HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"X-Hub-Signature-256: sha256={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def bare(request: Request) -> Response:
    """What ingress is measured against: it verifies, parses and forgets."""
    body = await request.body()
    claimed = request.headers["x-hub-signature-256"].removeprefix("sha256=")
    if not hmac.compare_digest(hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(), claimed):
        return Response(status_code=401)
    json.loads(body)
    return Response(status_code=200)


async def serve_bare(told: Connection) -> None:
    async with serve_http(
        Starlette(routes=[Route("/webhook", bare, methods=["POST"])]), "127.0.0.1", 0
    ) as port:
        told.send(port)
        await asyncio.Event().wait()


async def serve_ingress(told: Connection, config: Config) -> None:
    async with open_app(config) as app, asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(asyncio.Event()))
        while not app.health.ready or not app.port:
            await asyncio.sleep(0.05)
        told.send(app.port)


def child(told: Connection, bootstrap: str | None, prefix: str) -> None:
    sys.stdout = Path("/dev/null").open("w")  # noqa: SIM115 - log lines are written, nobody reads them
    if bootstrap is None:
        uvloop.run(serve_bare(told))
    else:
        config = Config(
            kafka_bootstrap=bootstrap,
            topic_prefix=prefix,
            app_secrets=(Secret(SECRET),),
            verify_token=Secret("bench"),
            port=0,
        )
        uvloop.run(serve_ingress(told, config))


async def post_all(port: int, requests: list[bytes], until_s: float, times_s: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    at = secrets.randbelow(len(requests))
    while (began_s := time.perf_counter()) < until_s:
        writer.write(requests[at % len(requests)])
        at += 1
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        times_s.append(time.perf_counter() - began_s)
    writer.close()


async def measured(
    port: int, requests: list[bytes], seconds: float, connections: int
) -> tuple[float, list[float]]:
    times_s: list[float] = []
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(post_all(port, requests, began_s + seconds, times_s))
    return len(times_s) / (time.perf_counter() - began_s), sorted(times_s)


def report(name: str, port: int, statuses_count: int, arguments: argparse.Namespace) -> None:
    requests = [a_request(a_body(statuses_count)) for _ in range(200)]
    uvloop.run(
        measured(port, requests, arguments.warm_up, arguments.connections)
    )  # a broker just started is slow
    rates, p99s = [], []
    for _ in range(3):
        rate, times_s = uvloop.run(measured(port, requests, arguments.seconds, arguments.connections))
        rates.append(rate)
        p99s.append(times_s[len(times_s) * 99 // 100])
    rate = statistics.median(rates)
    print(
        f"{name:8} {statuses_count:4} a body: {rate:8.0f} requests/s {rate * statuses_count:9.0f} statuses/s"
        f"  p99 {statistics.median(p99s) * 1000:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-up", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=32)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder)) as stack:
        prefix = f"b{secrets.token_hex(3)}."
        settings = KafkaSettings(bootstrap=stack.kafka_bootstrap, client_id="bench", topic_prefix=prefix)
        asyncio.run(apply_topics(settings, partitions_count=8, replication=1, min_insync=1))
        for name, bootstrap in (("bare", None), ("ingress", stack.kafka_bootstrap)):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=child, args=(theirs, bootstrap, prefix)
            )
            process.start()
            try:
                port = ours.recv()
                for statuses_count in (1, 100):
                    report(name, port, statuses_count, arguments)
            finally:
                process.terminate()
                process.join(10)


if __name__ == "__main__":
    main()
