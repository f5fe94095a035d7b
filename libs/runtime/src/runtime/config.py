"""Read a service's knobs from the environment, once, into one frozen record.

Invariant: a record that exists is complete, typed and within bounds, and no error or print of it shows a value.
"""

import difflib
import hmac
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Struct, inspect, structs

MASK = "****"
FILE_SUFFIX = "_FILE"

# Read from SLUICE_<FIELD>; <PREFIX>_<FIELD> wins, so that two services on one machine can differ.
SHARED = frozenset(
    {
        "kafka_bootstrap",
        "database_url",
        "topic_prefix",
        "installation",
        "log_level",
        "log_hash_key",
        "timing_scale",
        "graph_url",
        "graph_version",
        "access_token",
        "app_secrets",
        "verify_token",
        "health_host",
        "health_port",
    }
)

# SLUICE_ names that belong to the command line and the tests: no service reads them, none refuses them.
OTHERS = frozenset(
    {"SLUICE_THIRD_PARTY", "SLUICE_ADMIN_URL", "SLUICE_ADMIN_TOKEN", "SLUICE_ADMIN_TOKEN_FILE"}
)

ConfigT = TypeVar("ConfigT", bound=Struct)


class ConfigError(Exception):
    """The environment is no valid configuration. The text names the variable, never its value."""


class Secret:
    """A text that prints as `****` wherever it is printed; `reveal()` at the place of use."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))


def dec_hook(wanted: type[Any], found: Any) -> Any:
    """For msgspec: a text (or a Secret) where a `Secret` is wanted."""
    if wanted is Secret and isinstance(found, Secret):
        return found
    if wanted is Secret and isinstance(found, str):
        return Secret(found)
    raise NotImplementedError(f"no decoding to {wanted.__name__}")


def load(config_type: type[ConfigT], *, prefix: str, env: Mapping[str, str] | None = None) -> ConfigT:
    """Build `config_type` from `<PREFIX>_<FIELD>`, or `SLUICE_<FIELD>` for the fields in `SHARED`.

    `…_FILE` names a file that holds the value. Lists are comma-separated, blanks dropped; a blank secret is a missing
    one; booleans are `true`, `false`, `1`, `0`. A `__post_init__` may assert relations between fields; the assertion's
    text is shown, so it must not quote values. Raises `ConfigError`.
    """
    settings = config_type.__struct_config__
    assert settings.frozen, "a configuration never changes"
    assert settings.forbid_unknown_fields, "a configuration knows its fields"
    variables = os.environ if env is None else env
    _refuse_unknown_names(config_type.__struct_fields__, prefix, variables)
    values: dict[str, Any] = {}
    for field, shape in _shapes(config_type):
        found = _find(field.name, shape, prefix, variables)
        if found is not None:
            name, text = found
            values[field.name] = _converted(name, text, field.type, shape)
        elif field.required:
            names = " or ".join(reversed(_names(field.name, prefix)))
            raise ConfigError(f"{names} is missing: it must be {_words(shape)}")
    try:
        return config_type(**values)
    except AssertionError as error:
        raise ConfigError(f"{prefix}_* contradict each other: {error}") from None


def explain(config_type: type[Struct], prefix: str) -> str:
    """The table behind `--explain-config`: variable, type, default, description; a line each."""
    rows = [("VARIABLE", "TYPE", "DEFAULT", "DESCRIPTION")]
    for field, shape in _shapes(config_type):
        name = _names(field.name, prefix)[-1]
        rows.append((name, _words(shape), _default_text(field), _description(field.type)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    ]
    lines.append("")
    lines.append(f"Any name with {FILE_SUFFIX} appended names a file that holds the value.")
    lines.append(f"{prefix}_<FIELD> overrides SLUICE_<FIELD> for this service.")
    return "\n".join(lines) + "\n"


def _shapes(config_type: type[Struct]) -> list[tuple[structs.FieldInfo, inspect.Type]]:
    info = inspect.type_info(config_type)
    assert isinstance(info, inspect.StructType)
    described = {field.name: field.type for field in info.fields}
    return [(field, _bare(described[field.name])) for field in structs.fields(config_type)]


def _bare(shape: inspect.Type) -> inspect.Type:
    """The type below its description and its `| None`."""
    if isinstance(shape, inspect.Metadata):
        return _bare(shape.type)
    if isinstance(shape, inspect.UnionType):
        some = [one for one in shape.types if not isinstance(one, inspect.NoneType)]
        assert len(some) == 1, "a knob has one type, or one type and None"
        return _bare(some[0])
    return shape


def _names(field: str, prefix: str) -> list[str]:
    """Variables that may hold the field, the strongest first."""
    own = f"{prefix}_{field.upper()}"
    return [own, f"SLUICE_{field.upper()}"] if field in SHARED else [own]


def _refuse_unknown_names(fields: Iterable[str], prefix: str, env: Mapping[str, str]) -> None:
    own = {f"{prefix}_{field.upper()}" for field in fields}
    shared = {f"SLUICE_{field.upper()}" for field in SHARED}
    names = own | shared
    known = names | {name + FILE_SUFFIX for name in names} | OTHERS
    for name in sorted(env):
        if name.startswith((f"{prefix}_", "SLUICE_")) and name not in known:
            raise ConfigError(f"{name} is not a known variable; the closest is {_closest(name, names)}")


def _closest(name: str, names: set[str]) -> str:
    matches = difflib.get_close_matches(name.removesuffix(FILE_SUFFIX), sorted(names), n=1, cutoff=0.0)
    return matches[0] + (FILE_SUFFIX if name.endswith(FILE_SUFFIX) else "")


def _find(field: str, shape: inspect.Type, prefix: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    for name in _names(field, prefix):
        text = env.get(name)
        if text is not None and _is_secret(shape) and not text.replace(",", " ").strip():
            text = None
        path = env.get(name + FILE_SUFFIX)
        if text is not None and path is not None:
            raise ConfigError(f"{name} and {name}{FILE_SUFFIX} are both set: keep one")
        if path is not None:
            return _file(name + FILE_SUFFIX, path, shape)
        if text is not None:
            return name, text
    return None


def _file(name: str, path: str, shape: inspect.Type) -> tuple[str, str]:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} names a file that can't be read ({type(error).__name__})") from None
    if not text and _is_secret(shape):
        raise ConfigError(f"{name} names an empty file")
    return name, text


def _is_secret(shape: inspect.Type) -> bool:
    if isinstance(shape, inspect.VarTupleType):
        return _is_secret(_bare(shape.item_type))
    return isinstance(shape, inspect.CustomType) and shape.cls is Secret


def _converted(name: str, text: str, wanted: Any, shape: inspect.Type) -> Any:
    value: str | Sequence[str] = text
    if isinstance(shape, inspect.VarTupleType):
        value = [item for item in (part.strip() for part in text.split(",")) if item]
    try:
        converted = msgspec.convert(value, wanted, strict=False, dec_hook=dec_hook)
    except msgspec.ValidationError:
        converted = None  # msgspec's own text may quote the value
    if converted is None or (isinstance(converted, float) and not math.isfinite(converted)):
        raise ConfigError(f"{name} must be {_words(shape)}") from None
    return converted


def _words(shape: inspect.Type) -> str:
    """What a value must be, for people."""
    match _bare(shape):
        case inspect.BoolType():
            return "true or false"
        case inspect.EnumType(cls=cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case inspect.VarTupleType(item_type=item_type) as several:
            least = f", at least {several.min_length}" if several.min_length else ""
            return f"a comma-separated list of: {_words(item_type)}{least}"
        case single:
            return _single_words(single)


def _single_words(shape: inspect.Type) -> str:
    match shape:
        case inspect.IntType():
            return "a whole number" + _bounds(shape)
        case inspect.FloatType():
            return "a number" + _bounds(shape)
        case inspect.StrType(pattern=pattern, min_length=least, max_length=most):
            length = (
                "" if least is None and most is None else f" of {least or 0} to {most or 'any'} characters"
            )
            return "a text" + length + (f" like {pattern}" if pattern else "")
        case inspect.CustomType(cls=cls) if cls is Secret:
            return "a secret"
        case _:
            raise AssertionError(f"a knob can't be {type(shape).__name__}")


def _bounds(shape: inspect.IntType | inspect.FloatType) -> str:
    parts = [
        f"{words} {limit:g}" if isinstance(limit, float) else f"{words} {limit}"
        for words, limit in (
            ("above", shape.gt),
            ("from", shape.ge),
            ("below", shape.lt),
            ("to", shape.le),
        )
        if limit is not None
    ]
    return f" {' '.join(parts)}" if parts else ""


def _default_text(field: structs.FieldInfo) -> str:
    if field.required:
        return "(required)"
    value = field.default if field.default is not NODEFAULT else field.default_factory()
    if value is None or value in ("", ()):
        return "(none)" if value is None else "(empty)"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _description(wanted: Any) -> str:
    for meta in getattr(wanted, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    for inner in getattr(wanted, "__args__", ()):
        if text := _description(inner):
            return text
    return ""
