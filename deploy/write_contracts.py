"""Write what follows from declarations: of the topics JSON Schemas, AsyncAPI, the brokers' settings, ARCHITECTURE.md's
table; of the metrics their tables."""

import json
from pathlib import Path
from typing import Any

import yaml

from contracts.schemas import asyncapi, json_schema, topic_settings, with_topic_table
from contracts.topics import TOPICS
from deploy.write_metrics import generated_metrics

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "contracts"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
EXAMPLES = ROOT / "libs" / "contracts" / "src" / "contracts" / "examples"
_HEAD = "# Written by `make contracts` from contracts/topics.py; a change made here is lost.\n"
_PARTITIONS = """\
# Partitions, replication and min.insync.replicas are the installation's choice: `sluice topics apply --help`. The number
# of partitions is the same for every topic and never changes.
"""


def golden_examples() -> dict[str, dict[str, object]]:
    """Topic → name → value, of the version that is current."""
    found: dict[str, dict[str, object]] = {}
    for path in sorted(EXAMPLES.glob("*/v1/*.json")):
        found.setdefault(path.parent.parent.name, {})[path.stem] = json.loads(path.read_text())
    return found


def generated() -> dict[Path, str]:
    """Every generated file with its text."""
    schemas = {
        FOLDER / f"{topic.name}.schema.json": json.dumps(json_schema(topic), indent=2, ensure_ascii=False)
        + "\n"
        for topic in TOPICS
        if topic.value is not None
    }
    return {
        ARCHITECTURE: with_topic_table(ARCHITECTURE.read_text()),
        ROOT / "deploy" / "kafka" / "topics.yaml": _HEAD + _PARTITIONS + _yaml(topic_settings()),
        FOLDER / "asyncapi.yaml": _HEAD + _yaml(asyncapi(golden_examples())),
        **schemas,
        **generated_metrics(),
    }


def _yaml(value: Any) -> str:
    plain = json.loads(
        json.dumps(value)
    )  # a value that stands in two places is written out in both, without an anchor
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)


def main() -> None:
    texts = generated()
    for path in FOLDER.glob("*.schema.json"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
