"""Entry of the simulator process."""

from typing import NoReturn

from runtime.drain import run
from simulator.app import open_app
from simulator.config import Config


def main() -> NoReturn:
    run("simulator", Config, "SIMULATOR", open_app)


if __name__ == "__main__":
    main()
