"""What aiokafka makes of a connection that ends under its hands, on the loop that the services run on."""

import asyncio

import aiokafka.client
import pytest
import uvloop
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from kafkaio.access import Connection, KafkaAccess


@pytest.mark.bco("J06")
def test_bco_j06_a_request_on_a_connection_that_was_just_closed_is_a_lost_connection(
    kafka_bootstrap: str,
) -> None:
    async def main() -> None:
        host, port = kafka_bootstrap.split(":")
        connection = await aiokafka.client.create_conn(host, int(port), **KafkaAccess().arguments())
        assert isinstance(connection, Connection)
        transport = connection._writer.transport
        connection._read_task.cancel()  # it would notice, but a request may come first
        transport.abort()
        async with asyncio.timeout(10):
            while not transport.is_closing():
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(KafkaConnectionError):
            await connection.send(MetadataRequest([]))
        assert not connection.connected()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
