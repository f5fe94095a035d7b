"""The `sluice` command's way to the HTTP API; every failure becomes one sentence and an exit code.

Invariant: the token is sent to the given address alone, and is never printed.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import typer

from admin.cli_output import EXIT_NOT_ALLOWED, EXIT_REFUSED, EXIT_UNREACHABLE, CliError

T = TypeVar("T")

CONNECT_S = 5.0
ANSWER_S = 60.0
LAUNCH_S = 1_800.0  # freezing millions of rows
UPLOAD_S = 600.0  # for the last chunk to be stored
NOT_OURS = "the answer is not Sluice's: is this the address of its admin API?"


class _Fault(msgspec.Struct, frozen=True):
    code: str
    message: str


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _Fault


class Api:
    """The API at one address."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._url = url
        self._client = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            trust_env=False,
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close what connections there are."""
        self._client.close()

    def get(self, path: str, answer_type: type[T], *, params: Mapping[str, str] | None = None) -> T:
        """Return the answer to a GET. Raises `CliError`."""
        with self._told():
            return self._decoded(self._client.get(path, params=params), answer_type)

    def post(self, path: str, answer_type: type[T], body: object = None, *, answer_s: float = ANSWER_S) -> T:
        """Return the answer to a POST of JSON. Raises `CliError`."""
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        timeout = httpx.Timeout(answer_s, connect=CONNECT_S)
        with self._told():
            reply = self._client.post(path, content=content, headers=headers, timeout=timeout)
            return self._decoded(reply, answer_type)

    def delete(self, path: str, answer_type: type[T]) -> T:
        """Return the answer to a DELETE. Raises `CliError`."""
        with self._told():
            return self._decoded(self._client.delete(path), answer_type)

    def upload(
        self, path: str, pieces: Iterable[bytes], answer_type: type[T], *, params: Mapping[str, str]
    ) -> T:
        """Return the answer to a POST of a CSV file. Raises `CliError`."""
        timeout = httpx.Timeout(UPLOAD_S, connect=CONNECT_S)
        headers = {"content-type": "text/csv"}
        with self._told():
            reply = self._client.post(path, content=pieces, params=params, headers=headers, timeout=timeout)
            return self._decoded(reply, answer_type)

    def download(self, path: str, *, params: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the pieces of a file. Raises `CliError`, also when it breaks off in the middle."""
        with self._told(), self._client.stream("GET", path, params=params) as reply:
            if not reply.is_success:
                reply.read()
                raise self._refused(reply)
            yield from reply.iter_bytes()

    def _decoded(self, reply: httpx.Response, answer_type: type[T]) -> T:
        if not reply.is_success:
            raise self._refused(reply)
        try:
            return msgspec.json.decode(reply.content, type=answer_type)
        except msgspec.DecodeError:
            raise CliError(EXIT_UNREACHABLE, f"{self._url}: {NOT_OURS}") from None

    def _refused(self, reply: httpx.Response) -> CliError:
        if reply.status_code == 401:
            return CliError(
                EXIT_NOT_ALLOWED, "the token is missing or wrong: see --token-file, or set SLUICE_ADMIN_TOKEN"
            )
        if reply.status_code == 403:
            return CliError(EXIT_NOT_ALLOWED, "the server doesn't take commands from here")
        try:
            sentence = msgspec.json.decode(reply.content, type=_ErrorAnswer).error.message
        except msgspec.DecodeError:
            return CliError(
                EXIT_UNREACHABLE, f"{self._url} answered {reply.status_code}, and not as Sluice does"
            )
        code = EXIT_UNREACHABLE if reply.status_code == 503 else EXIT_REFUSED
        return CliError(code, sentence[:1].lower() + sentence[1:].rstrip("."))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise CliError(
                EXIT_UNREACHABLE, f"there is no Sluice at {self._url}: is admin running, is --url right?"
            ) from None
        except httpx.TimeoutException:
            raise CliError(
                EXIT_UNREACHABLE, f"{self._url} didn't answer in time: it may have been done all the same"
            ) from None
        except httpx.TransportError:
            raise CliError(
                EXIT_UNREACHABLE, f"the connection to {self._url} broke: look, then ask again"
            ) from None


def api_of(context: typer.Context) -> Api:
    """Return the API that the global options name."""
    api: Any = context.obj
    assert isinstance(api, Api)
    return api


def token_from(token_file: Path | None, token: str | None) -> str | None:
    """Return the token of the file, if one is named, else the given one. Raises `CliError`."""
    if token_file is None:
        text = (token or "").strip()
    else:
        try:
            text = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise CliError(EXIT_NOT_ALLOWED, f"the token file {token_file} can't be read") from None
    if not (text.isascii() and (text.isprintable() or not text)):
        raise CliError(EXIT_NOT_ALLOWED, "the token holds characters that no token has")
    return text or None
