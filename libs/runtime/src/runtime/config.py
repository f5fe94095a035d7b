"""Read a service's knobs from the environment, once, into one frozen record.

Invariant: a record that exists is complete, typed and within bounds, and no error or print of it shows a value. It
never changes, but for the texts behind the secrets that came from files: `runtime.renewal` keeps those current.
"""

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import NODEFAULT, Struct, inspect, structs

from runtime.secret import Pem, Secret, Secrets, SecretText

__all__ = ["ConfigError", "Pem", "Secret", "Secrets", "explain", "load"]

FILE_SUFFIX = "_FILE"

# Read from SLUICE_<FIELD>; <PREFIX>_<FIELD> wins, so that two services on one machine can differ.
SHARED = frozenset(
    {
        "kafka_bootstrap",
        "kafka_security_protocol",
        "kafka_sasl_mechanism",
        "kafka_username",
        "kafka_password",
        "kafka_ca",
        "kafka_certificate",
        "kafka_key",
        "database_url",
        "database_password",
        "database_sslmode",
        "database_ca",
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


def dec_hook(wanted: type[Any], found: Any) -> Any:
    """For msgspec: a text (or a secret of that kind) where a secret is wanted."""
    if not (isinstance(wanted, type) and issubclass(wanted, SecretText)):
        raise NotImplementedError(f"no decoding to {wanted.__name__}")
    return found if isinstance(found, wanted) else wanted.parsed(found)


class Knob(NamedTuple):
    """One setting: a field of the record, or of one of its groups (a field that is a record itself)."""

    name: str
    """In the environment, without its prefix: `drain_s`, `kafka_password`."""
    group: str
    field: structs.FieldInfo
    shape: inspect.Type


def load(config_type: type[ConfigT], *, prefix: str, env: Mapping[str, str] | None = None) -> ConfigT:
    """Build `config_type` from `<PREFIX>_<FIELD>`, or `SLUICE_<FIELD>` for the fields in `SHARED`.

    `…_FILE` names a file that holds the value. A field that is a record itself is a group: its fields are named
    `<group>_<field>`, and all have defaults. Lists are comma-separated, blanks dropped; a blank secret is a missing
    one; booleans are `true`, `false`, `1`, `0`. A `__post_init__` may assert relations between fields; the assertion's
    text is shown, so it must not quote values. Raises `ConfigError`.
    """
    settings = config_type.__struct_config__
    assert settings.frozen, "a configuration never changes"
    assert settings.forbid_unknown_fields, "a configuration knows its fields"
    variables = os.environ if env is None else env
    knobs = list(_knobs(config_type))
    _refuse_unknown_names([knob.name for knob in knobs], prefix, variables)
    values: dict[str, dict[str, Any]] = {"": {}}
    for knob in knobs:
        found = _find(knob.name, knob.shape, prefix, variables)
        if found is not None:
            name, text, path = found
            value = _converted(name, text, knob.field.type, knob.shape)
            if isinstance(value, SecretText):
                value.source = None if path is None else (name, path)
            values.setdefault(knob.group, {})[knob.field.name] = value
        elif knob.field.required:
            names = " or ".join(reversed(_names(knob.name, prefix)))
            raise ConfigError(f"{names} is missing: it must be {_words(knob.shape)}")
    try:
        groups = {
            field.name: field.type(**values.get(field.name, {}))
            for field in structs.fields(config_type)
            if _is_group(field.type)
        }
        return config_type(**values[""], **groups)
    except AssertionError as error:
        raise ConfigError(f"{prefix}_* contradict each other: {error}") from None


def explain(config_type: type[Struct], prefix: str) -> str:
    """The table behind `--explain-config`: variable, type, default, description; a line each."""
    rows = [("VARIABLE", "TYPE", "DEFAULT", "DESCRIPTION")]
    for knob in _knobs(config_type):
        name = _names(knob.name, prefix)[-1]
        rows.append((name, _words(knob.shape), _default_text(knob.field), _description(knob.field.type)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    ]
    lines.append("")
    lines.append(
        f"Any name with {FILE_SUFFIX} appended names a file that holds the value; a secret's is read again"
    )
    lines.append("when it changes: a value that can't be used is refused, and the one before stays in use.")
    lines.append(f"{prefix}_<FIELD> overrides SLUICE_<FIELD> for this service.")
    return "\n".join(lines) + "\n"


def _knobs(config_type: type[Struct], group: str = "") -> Iterator[Knob]:
    info = inspect.type_info(config_type)
    assert isinstance(info, inspect.StructType)
    described = {field.name: field.type for field in info.fields}
    for field in structs.fields(config_type):
        if _is_group(field.type):
            assert not group, "groups don't nest"
            yield from _knobs(field.type, field.name)
        else:
            name = f"{group}_{field.name}" if group else field.name
            yield Knob(name, group, field, _bare(described[field.name]))


def _is_group(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Struct)


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


def _find(
    field: str, shape: inspect.Type, prefix: str, env: Mapping[str, str]
) -> tuple[str, str, Path | None] | None:
    """Return the variable, the text, and the file that it came from."""
    for name in _names(field, prefix):
        text = env.get(name)
        if text is not None and _is_secret(shape) and not text.replace(",", " ").strip():
            text = None
        path = env.get(name + FILE_SUFFIX)
        if text is not None and path is not None:
            raise ConfigError(f"{name} and {name}{FILE_SUFFIX} are both set: keep one")
        if path is not None:
            return name + FILE_SUFFIX, _file(name + FILE_SUFFIX, path, shape), Path(path)
        if text is not None:
            return name, text, None
    return None


def _file(name: str, path: str, shape: inspect.Type) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} names a file that can't be read ({type(error).__name__})") from None
    if not text and _is_secret(shape):
        raise ConfigError(f"{name} names an empty file")
    return text


def _is_secret(shape: inspect.Type) -> bool:
    if isinstance(shape, inspect.VarTupleType):
        return _is_secret(_bare(shape.item_type))
    return isinstance(shape, inspect.CustomType) and issubclass(shape.cls, SecretText)


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
        case inspect.CustomType(cls=cls) if issubclass(cls, SecretText):
            return cls.words
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
    if value is None or value in ("", (), Secrets()):
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
