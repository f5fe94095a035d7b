"""The sender's entry."""

from runtime.drain import run
from sender.app import open_app
from sender.config import Config


def main() -> None:
    run("sender", Config, "SENDER", open_app)


if __name__ == "__main__":
    main()
