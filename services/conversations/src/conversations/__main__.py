"""The entry of conversations."""

from conversations.app import open_app
from conversations.config import Config
from runtime.drain import run


def main() -> None:
    run("conversations", Config, "CONVERSATIONS", open_app)


if __name__ == "__main__":
    main()
