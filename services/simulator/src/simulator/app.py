"""Where the simulator's parts meet: the world, its webhooks and its HTTP face, opened and closed together."""

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from starlette.applications import Starlette

from runtime.clock import SYSTEM_CLOCK, Clock
from runtime.health import Health, serve_http
from simulator import scenario
from simulator.callbacks import Callbacks
from simulator.config import Config
from simulator.graph_reads import Reads
from simulator.web import Desk, Front
from simulator.web_graph import GraphReads
from simulator.world import World

TICK_S = 0.01  # how exact the times of journeys are
UPDATES_PER_TICK_MAX = 500  # a few milliseconds of work: a longer pause would bunch the arrivals it measures
FREEZE_EVERY_S = 5.0
KEEP_ALIVE_S = 75
STOP_S = 1.0


class App:
    """The running simulator. `port` is the bound one."""

    def __init__(self, world: World, callbacks: Callbacks, clock: Clock, health: Health, port: int) -> None:
        self._world = world
        self._callbacks = callbacks
        self._clock = clock
        self.health = health
        self.port = port

    async def run(self, stop: asyncio.Event) -> None:
        """Tell what is due and deliver it, until `stop`; what is pending then is dropped."""
        async with asyncio.TaskGroup() as tasks:
            loops = [
                tasks.create_task(self._callbacks.run()),
                tasks.create_task(self._tell()),
                tasks.create_task(self._keep_pauses_short()),
            ]
            await stop.wait()
            for loop in loops:
                loop.cancel()

    async def _tell(self) -> None:
        while True:
            now = self._clock.boottime()
            room = min(self._callbacks.room, UPDATES_PER_TICK_MAX)
            for update, urgent in self._world.due_updates(now, room):
                self._callbacks.offer(update, urgent=urgent)
            await self._clock.sleep(TICK_S)

    async def _keep_pauses_short(self) -> None:
        """Keep the garbage collector off the records: a walk over a million of them stops the loop for 100 ms and
        more, and arrivals that bunch behind it would look like the client's burst."""
        try:
            while True:
                gc.collect(1)
                gc.freeze()
                await self._clock.sleep(FREEZE_EVERY_S)
        finally:
            gc.unfreeze()


@asynccontextmanager
async def open_app(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[App]:
    """Open a simulator. Raises ValueError for a bad scenario, OSError when the port is taken or a file missing."""
    first = scenario.Scenario()
    if config.scenario_file:
        first = scenario.parse(await asyncio.to_thread(Path(config.scenario_file).read_bytes))
    world = World(
        first,
        seed=config.seed,
        access_token=config.access_token.reveal(),
        run_id=secrets.randbits(32),
    )
    callbacks = Callbacks(
        lambda: world.scenario.webhooks,
        url=config.webhook_url,
        secret=config.app_secret,
        clock=clock,
        rng=Random(config.seed),
    )
    desk = Desk(
        world,
        callbacks,
        clock,
        seed=config.seed,
        verify_token=config.verify_token.reveal() if config.verify_token else "",
    )
    health = Health()
    reads = Reads(
        lambda: world.scenario,
        access_token=config.access_token.reveal(),
        app_secret=config.app_secret.reveal(),
    )
    routes = [*desk.routes(), *health.routes(), *GraphReads(reads, clock).routes()]
    async with serve_http(
        Front(world, callbacks, clock, Starlette(routes=routes)),
        config.host,
        config.port,
        stop_s=STOP_S,
        keep_alive_s=KEEP_ALIVE_S,
        wall=lambda: clock.wall() + world.scenario.account.clock_ahead_s,
    ) as port:
        yield App(world, callbacks, clock, health, port)
