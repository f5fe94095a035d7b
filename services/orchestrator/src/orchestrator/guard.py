"""Pauses what began to run just as the event that stops it was noted, or came back from `completing` after it."""

from ledger import templates
from ledger.pool import Ledger
from orchestrator import metrics
from runtime.logs import get_logger

log = get_logger()


async def pause_unsendable(ledger: Ledger) -> None:
    """Pause running campaigns whose template Meta doesn't take."""
    paused = await templates.pause_unsendable(ledger)
    if paused:
        metrics.PAUSED.labels("template").inc(len(paused))
        log.info("campaigns.paused", campaigns_count=len(paused))
