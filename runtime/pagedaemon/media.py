"""Pictures and files that people send with their words, and what a message keeps of them.

`Image` and `File` are what a user gives; an `Attachment` is the same as it is stored. A URL is
passed on to the model's provider as it is: nothing here ever fetches anything.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pagedaemon.errors import InvalidInput, NotFound
from pagedaemon.pixels import Size, is_whole, size_of, sniffed

LARGEST = 20_000_000
"""Bytes of one picture or file: what the strictest of the large providers takes in a request."""

LONGEST_URL = 8_192
"""Characters of a URL that is passed on."""

LONGEST_NAME = 200
"""Characters of a name; a longer one is cut."""

Detail: TypeAlias = Literal["auto", "low", "high"]
"""How closely a provider that asks for it looks: `low` costs few tokens."""

_DETAILS = ("auto", "low", "high")
_DATA_URL = re.compile(r"data:([^;,\s]*)(?:;[^;,]*)*?;base64,", re.IGNORECASE)
_HEADER = 65_536
"""Characters of base64 in which nearly every picture tells its size."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TEXT_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".csv": "text/csv",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: PNG, JPEG, GIF or WebP as bytes, or a URL under which the model's provider finds
    one. Made by `from_url`, `from_data_url`, `from_bytes` or `from_path`.

    Raises:
        InvalidInput: both or none of `data` and `url`; no such picture, one that is damaged or cut
            off, or of more than 20 MB; no http(s) URL.
    """

    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None
    """What it is called where it cannot be shown. None: nothing."""
    detail: Detail | None = None
    """None: as the provider does by itself."""
    media_type: str = field(init=False)
    """Of bytes: what they are. Of a URL: `image/*`."""
    width: int | None = field(init=False)
    """Pixels; None for a URL."""
    height: int | None = field(init=False)

    def __post_init__(self) -> None:
        if self.detail is not None and self.detail not in _DETAILS:
            raise InvalidInput(f"detail is one of {', '.join(_DETAILS)}, not {self.detail!r}")
        media_type = "image/*"
        size: Size | None = None
        if self.data is not None and self.url is None:
            media_type, size = _checked_picture(self.data)
        elif self.url is not None and self.data is None:
            _check_url(self.url)
        else:
            raise InvalidInput("a picture has either data or a url: use Image.from_bytes(...)")
        object.__setattr__(self, "name", _checked_name(self.name))
        object.__setattr__(self, "media_type", media_type)
        object.__setattr__(self, "width", None if size is None else size[0])
        object.__setattr__(self, "height", None if size is None else size[1])

    @classmethod
    def from_url(cls, url: str, *, name: str | None = None, detail: Detail | None = None) -> Image:
        """A picture that the provider fetches itself. Each request asks for it anew, so it must
        stay there; where it may go away, send its bytes.

        Args:
            url: http or https.
            name: None: the last part of the URL's path.

        Raises:
            InvalidInput: it is none.
        """
        _check_url(url)
        return cls(url=url, name=name or _last_part(url), detail=detail)

    @classmethod
    def from_data_url(
        cls, url: str, *, name: str | None = None, detail: Detail | None = None
    ) -> Image:
        """A picture in a `data:image/…;base64,` URL. What its bytes are goes before the type that
        the URL gives.

        Raises:
            InvalidInput: it is no such URL, or no such picture.
        """
        _check_text(url, "a data URL")
        match = _DATA_URL.match(url)
        if match is None:
            raise InvalidInput("a data URL begins with data:image/<type>;base64, and nothing else")
        return cls.from_base64(url[match.end() :], name=name, detail=detail)

    @classmethod
    def from_base64(
        cls, text: str, *, name: str | None = None, detail: Detail | None = None
    ) -> Image:
        """A picture whose bytes are given as base64.

        Raises:
            InvalidInput: it is no base64, or no such picture.
        """
        _check_text(text, "base64")
        if len(text) > LARGEST * 3 // 2:
            raise _too_large()
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except ValueError as error:
            raise InvalidInput(
                f"the picture's data is no base64 ({error}): encode its bytes once more"
            ) from error
        return cls(data, name=name, detail=detail)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str | None = None,
        *,
        name: str | None = None,
        detail: Detail | None = None,
    ) -> Image:
        """A picture as bytes.

        Args:
            media_type: such as `image/png`. None: what the bytes say.

        Raises:
            InvalidInput: no such picture, or one of another type.
        """
        made = cls(data, name=name, detail=detail)
        if media_type is not None and _usual(media_type) != made.media_type:
            raise InvalidInput(
                f"these bytes are {made.media_type} and no {media_type}: leave media_type out"
            )
        return made

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], *, name: str | None = None, detail: Detail | None = None
    ) -> Image:
        """A picture in a file, read at once.

        Args:
            name: None: the file's.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it cannot be read, or is no such picture.
        """
        found, data = _read(path)
        return cls(data, name=name or found.name, detail=detail)


@dataclass(frozen=True, slots=True)
class File:
    """A text-like document: its text goes into the message, and the file itself is kept with it.
    Made by `from_path` or `from_bytes`.

    Raises:
        InvalidInput: no text, text in another encoding, or more than 20 MB.
    """

    data: bytes = field(repr=False)
    name: str = "file"
    encoding: str | None = None
    """None: what its byte order mark says, else UTF-8."""
    media_type: str = field(init=False)
    """By the ending of the name; `text/plain` where that says nothing."""
    text: str = field(init=False, repr=False)
    """What it says."""

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise InvalidInput(f"a file is bytes, not {type(self.data).__name__}")
        if len(self.data) > LARGEST:
            raise _too_large()
        name = _checked_name(self.name) or "file"
        object.__setattr__(self, "name", name)
        suffix = Path(name).suffix.lower()
        object.__setattr__(self, "media_type", _TEXT_TYPES.get(suffix, "text/plain"))
        object.__setattr__(self, "text", _decoded(self.data, name, self.encoding))

    @classmethod
    def from_bytes(cls, data: bytes, name: str, *, encoding: str | None = None) -> File:
        """A document as bytes, with the name it is shown under.

        Raises:
            InvalidInput: as the class.
        """
        return cls(data, name, encoding)

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], *, name: str | None = None, encoding: str | None = None
    ) -> File:
        """A document in a file, read at once.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it cannot be read, or as the class.
        """
        found, data = _read(path)
        return cls(data, name or found.name, encoding)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture or file of a message, as it is stored.

    `recall.attachment(id)` gives the bytes of any; `data` holds those of pictures in the window.
    """

    id: str
    kind: Literal["image", "file"]
    media_type: str
    size: int
    """Bytes; 0 for a URL."""
    sha256: str
    """Of the bytes, or of the URL."""
    name: str | None = None
    url: str | None = None
    width: int | None = None
    height: int | None = None
    detail: Detail | None = None
    placeholder: str = ""
    """What stands for a picture where it is not shown. Empty for a file: its text is in the
    message."""
    at: int = 0
    """Where in the message's text a picture stands: before that character."""
    data: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def source(self) -> str:
        """The URL a provider is given: where it is, or the bytes in a data URL."""
        if self.url is not None:
            return self.url
        assert self.data is not None, "a picture in the window has its bytes"
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"

    def described(self) -> dict[str, Any]:
        """All but the bytes, as JSON."""
        described = asdict(self)
        del described["data"]
        return described


def attachment(
    given: Image | File, identity: str, placeholder: str = "", at: int = 0
) -> Attachment:
    """What is stored of a picture or a file."""
    if isinstance(given, File):
        return Attachment(
            id=identity,
            kind="file",
            media_type=given.media_type,
            size=len(given.data),
            sha256=hashlib.sha256(given.data).hexdigest(),
            name=given.name,
            data=given.data,
        )
    content = given.data if given.data is not None else str(given.url).encode()
    return Attachment(
        id=identity,
        kind="image",
        media_type=given.media_type,
        size=0 if given.data is None else len(given.data),
        sha256=hashlib.sha256(content).hexdigest(),
        name=given.name,
        url=given.url,
        width=given.width,
        height=given.height,
        detail=given.detail,
        placeholder=placeholder,
        at=at,
        data=given.data,
    )


def from_described(described: Iterable[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    """Attachments as `Attachment.described` wrote them, without their bytes."""
    return tuple(Attachment(**one) for one in described)


def pictures(attachments: Iterable[Attachment]) -> list[Attachment]:
    """Those that are shown to a model as what they are."""
    return [one for one in attachments if one.kind == "image"]


def in_order(text: str, attachments: Iterable[Attachment]) -> Iterator[str | Attachment]:
    """A message's text and pictures, in the order they were said; blank pieces left out."""
    start = 0
    for picture in pictures(attachments):
        if text[start : picture.at].strip():
            yield text[start : picture.at]
        yield picture
        start = max(start, picture.at)
    if text[start:].strip():
        yield text[start:]


def in_words(text: str, attachments: Iterable[Attachment]) -> str:
    """The same with a placeholder for each picture; text alone as it is."""
    shown = pictures(attachments)
    if not shown:
        return text
    return "\n".join(
        piece.strip("\n") if isinstance(piece, str) else piece.placeholder
        for piece in in_order(text, shown)
    )


def size_in_data_url(url: str) -> Size | None:
    """Width and height of the picture in a data URL; None where it cannot be told."""
    match = _DATA_URL.match(url)
    if match is None:
        return None
    start = match.end()
    for end in (start + _HEADER, len(url)):
        piece = url[start:end]
        try:
            found = size_of(base64.b64decode(piece[: len(piece) // 4 * 4]))
        except ValueError:  # then nothing can be told of it
            return None
        if found is not None or end >= len(url):
            return found
    return None


def _checked_picture(data: object) -> tuple[str, Size]:
    if not isinstance(data, bytes):
        raise InvalidInput(f"a picture is bytes, not {type(data).__name__}")
    if len(data) > LARGEST:
        raise _too_large()
    media_type = sniffed(data)
    if media_type is None:
        raise InvalidInput("this is no picture that models take: convert it to PNG, JPEG or WebP")
    size = size_of(data)
    if size is None:
        raise InvalidInput(f"this {media_type} is damaged or cut off: it does not tell its size")
    if not is_whole(data):
        raise InvalidInput(
            f"this {media_type} is cut off: it stops before the picture does. Fetch or save it anew"
        )
    return media_type, size


def _too_large() -> InvalidInput:
    return InvalidInput(f"a picture or file has at most {LARGEST:,} bytes: make it smaller")


def _check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is text, not {type(value).__name__}")


def _check_url(url: str) -> None:
    _check_text(url, "a URL")
    if url[:5].lower() == "data:":
        raise InvalidInput("this is a data URL: use Image.from_data_url(...)")
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        right = False
    if not right or len(url) > LONGEST_URL or re.search(r"[^\x21-\x7e]", url):
        raise InvalidInput(
            f"{url[:100]!r} is no http(s) URL of at most {LONGEST_URL} characters. For a file on "
            "this machine use Image.from_path(...)"
        )


def _last_part(url: str) -> str | None:
    part = unquote(urlsplit(url).path, errors="replace").rpartition("/")[2]
    return " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", part).split()) or None


def _checked_name(name: str | None) -> str | None:
    """A name as one line without the signs that end a placeholder."""
    if name is None:
        return None
    _check_text(name, "a name")
    # A file's name may hold what is no valid Unicode.
    name = name.encode(errors="replace").decode()
    line = " ".join(re.sub(r"[\x00-\x1f\x7f\[\]]", " ", name).split())
    return line[:LONGEST_NAME].rstrip() or None


def _usual(media_type: str) -> str:
    _check_text(media_type, "a media type")
    usual = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if usual == "image/jpg" else usual


def _read(path: object) -> tuple[Path, bytes]:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"give the path of a file, not {type(path).__name__}")
    found = Path(path)
    try:
        if found.stat().st_size > LARGEST:
            raise _too_large()
        return found, found.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {found} (the folder is {Path.cwd()})") from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{str(found)[:200]!r} cannot be read ({error})") from error


def marked_encoding(data: bytes) -> str | None:
    """The encoding that a text's byte order mark tells; None where it has none."""
    return next((codec for mark, codec in _MARKS if data.startswith(mark)), None)


def _decoded(data: bytes, name: str, encoding: str | None) -> str:
    if data.startswith((b"%PDF-", b"PK\x03\x04")):
        raise InvalidInput(
            f"{name} is a PDF, an office document or an archive, which are not read here: extract "
            "its text and send that, or load it with archive.load as text, Markdown or HTML"
        )
    if sniffed(data) is not None:
        raise InvalidInput(f"{name} is a picture: send it as Image.from_bytes or Image.from_path")
    marked = marked_encoding(data) or "utf-8"
    try:
        text = data.decode(encoding or marked)
    except (UnicodeError, LookupError, TypeError) as error:
        raise InvalidInput(
            f"{name} cannot be read as {encoding or marked} text ({error}): give its encoding, "
            "such as encoding='cp1252', or convert it to text first"
        ) from error
    if "\x00" in text:
        raise InvalidInput(f"{name} is no text: it contains NUL. Convert it to text first")
    return text.removeprefix("\ufeff")
