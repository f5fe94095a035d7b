"""The status aggregator's entry."""

from runtime.drain import run
from status_aggregator.app import open_app
from status_aggregator.config import Config


def main() -> None:
    run("status-aggregator", Config, "STATUS_AGGREGATOR", open_app)


if __name__ == "__main__":
    main()
