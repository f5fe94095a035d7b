"""What every process says about itself, under the same names everywhere."""

from importlib import metadata

from prometheus_client import Counter, Gauge

BUILD_INFO = Gauge(
    "sluice_runtime_build_info",
    "Always 1; the labels say what runs. More than one version for long: a roll-out is stuck.",
    ["service", "version"],
)
START_TIME_SECONDS = Gauge(
    "sluice_runtime_start_time_seconds",
    "Unix time at which the process came up. If it moves often, read the last lines of the log before each start.",
)
DRAINING = Gauge(
    "sluice_runtime_draining",
    "1 while the process finishes its work before it stops. At 1 for longer than drain_s: it is stuck, end it.",
)
LOG_KEYS_DROPPED = Counter(
    "sluice_runtime_log_keys_dropped_total",
    "Log values refused because they might be personal data. If it rises, correct the call that logs them.",
)
LOG_LINES_DEGRADED = Counter(
    "sluice_runtime_log_lines_degraded_total",
    "Log lines that lost their fields because the call was faulty. If it rises, correct that call.",
)
LOG_LINES_SUPPRESSED = Counter(
    "sluice_runtime_log_lines_suppressed_total",
    "Lines of libraries that said what one within the last seconds had said. While it rises, something is away: read those"
    " that passed.",
)
LOOP_FENCED = Counter(
    "sluice_runtime_loop_fenced_total",
    "Times the event loop stood still so long that the process was fenced. Look for blocking calls or a starved CPU.",
)

SECRET_REFUSED = Gauge(
    "sluice_runtime_secret_refused",
    "1 while the file of a secret is empty, unreadable or no value for it: the one before is in use. Correct the file.",
    ["name"],
)


def declare_start(service: str, now: float) -> None:
    """Fill in build info and start time (`now`: unix seconds)."""
    try:
        version = metadata.version(f"sluice-{service}")
    except metadata.PackageNotFoundError:
        version = "unknown"
    BUILD_INFO.labels(service=service, version=version).set(1)
    START_TIME_SECONDS.set(now)
    DRAINING.set(0)
