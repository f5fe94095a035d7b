"""The orchestrator's entry."""

from orchestrator.app import open_app
from orchestrator.config import Config
from runtime.drain import run


def main() -> None:
    run("orchestrator", Config, "ORCHESTRATOR", open_app)


if __name__ == "__main__":
    main()
