"""Starts admin: `python -m admin`."""

from admin.app import open_app
from admin.config import Config
from runtime.drain import run


def main() -> None:
    run("admin", Config, "ADMIN", open_app)


if __name__ == "__main__":
    main()
