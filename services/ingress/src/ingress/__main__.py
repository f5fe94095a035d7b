"""Starts ingress: `python -m ingress`."""

from ingress.app import open_app
from ingress.config import Config
from runtime.drain import run


def main() -> None:
    run("ingress", Config, "INGRESS", open_app)


if __name__ == "__main__":
    main()
