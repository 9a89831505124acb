"""Damaged copies of valid files, for ``fuzz.py``: bytes flipped, cut, repeated, spliced, and unexpected values.

``mutated`` draws everything from one generator, so that a case can be repeated. Files with an inner structure (JSON,
safetensors, zip archives) are also taken apart, changed inside and put together again: otherwise a checksum or a
length would stop every case at the door.
"""

import io
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any
from zipfile import ZipFile

TOKENS = (
    *(b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\n\n", b"\t", b'"', b"'", b"\\", b",", b";", b"[", b"]"),
    *(b"{", b"}", b"=", b"#", b"..", b"/", b"../../etc/passwd", b"/dev/zero", b"~", b"%s", b"=1+1", b"nan", b"-inf"),
    *(b"null", b"true", b"-1", b"0", b"1e999", b"99999999999999999999999", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80"),
    *(b"\xe2\x80\xae", b"<script>", b"[[[[[[[[[[[[[[[[", b'{"a":' * 50, b"x" * 5000, b"PK\x03\x04", b"\x80\x04."),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "0", "nan", "\0", "\ud800", "../..", "x" * 3000, "é😀", [], {}, [[]], [None], [1, "a"], {"a": 1}, [0] * 1000),
)
NUMBER = re.compile(rb"-?\d+(\.\d+)?")
LARGEST = 1 << 20  # bytes of a damaged copy


def mutated(seeds: Sequence[bytes], random: Random) -> bytes:
    """A damaged copy of one of these files."""
    content = random.choice(seeds)
    ways: list[Callable[[bytes, Random], bytes]] = [bytes_changed, bytes_changed, inside_changed]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = random.choice(ways)(content, random)
    if random.random() < 0.1:
        other = random.choice(seeds)
        content = content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other) + 1) :]
    return content[:LARGEST]


def bytes_changed(content: bytes, random: Random) -> bytes:
    """A copy that was damaged without regard to what is in it."""
    here, there = sorted(random.randrange(len(content) + 1) for _ in range(2))
    there = min(there, here + random.choice((1, 4, 64, 4096)))
    before, part, after = content[:here], content[here:there], content[there:]
    way = random.randrange(8)
    if way == 0:
        return number_changed(content, random)
    instead = (
        bytes(byte ^ (1 << random.randrange(8)) for byte in part[:4]) + part[4:],  # bits flipped
        b"",
        part * random.choice((2, 3, 50)),
        random.choice(TOKENS) + part,
        random.choice(TOKENS),
        random.randbytes(len(part)),
    )
    return before if way == 7 else before + instead[way - 1] + after


def number_changed(content: bytes, random: Random) -> bytes:
    """A copy with another number, or a token in its place."""
    found = list(NUMBER.finditer(content[:20_000]))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + random.choice(TOKENS) + content[one.end() :]


def inside_changed(content: bytes, random: Random) -> bytes:
    """A copy whose parts were changed, but which is well-formed, if its structure is known."""
    with suppress(Exception):  # what was damaged before cannot be taken apart
        if content[:2] == b"PK":
            return archive_changed(content, random)
        if content[8:9] == b"{":
            return header_changed(content, random)
        if content.count(b"\n{") and content[:1] == b"{" and b'"epoch"' in content:
            lines = content.splitlines()
            line = random.randrange(len(lines))
            lines[line] = as_json(value_changed(json.loads(lines[line]), random))
            return b"\n".join(lines) + b"\n"
        return as_json(value_changed(json.loads(content), random))
    return bytes_changed(content, random)


def archive_changed(content: bytes, random: Random) -> bytes:
    """A zip archive with a changed file in it, and right checksums."""
    with ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(files))
    if random.random() < 0.1:
        files[name + random.choice(("", ".npy", "/../x"))] = files.pop(name)
    else:
        files[name] = bytes_changed(files[name], random)
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for each, inner in files.items():
            archive.writestr(each, inner)
    return buffer.getvalue()


def header_changed(content: bytes, random: Random) -> bytes:
    """A safetensors file with a changed header of the right length."""
    length = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:length])
    metadata = header.get("__metadata__", {})
    inner = [key for key in metadata if metadata[key][:1] == "{"]
    if inner and random.random() < 0.5:
        metadata[inner[0]] = as_json(value_changed(json.loads(metadata[inner[0]]), random)).decode()
    else:
        header = value_changed(header, random)
    text = as_json(header)
    return len(text).to_bytes(8, "little") + text + content[length:]


def as_json(value: Any) -> bytes:
    """JSON, with surrogates as they are."""
    return json.dumps(value).encode()


def value_changed(value: Any, random: Random) -> Any:
    """A JSON value in which something is another, missing, or there twice."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        return table_changed(value, random)
    if isinstance(value, list) and value and random.random() < 0.8:
        place = random.randrange(len(value))
        return [*value[:place], value_changed(value[place], random), *value[place + random.choice((0, 1, 1, 1)) :]]
    return random.choice((*similar(value, random), random.choice(VALUES), random.choice(VALUES)))


def table_changed(value: dict[str, Any], random: Random) -> dict[str, Any]:
    """A table with a key that is missing, new, or has another value."""
    key, way = random.choice(list(value)), random.random()
    if way < 0.15:
        return {name: each for name, each in value.items() if name != key}
    if way < 0.2:
        return {**value, random.choice(("", "x", "format", key.upper())): random.choice(VALUES)}
    return {**value, key: value_changed(value[key], random)}


def similar(value: Any, random: Random) -> tuple[Any, ...]:
    """Values of the same type, nearly."""
    if isinstance(value, str) and value:
        return (value[: random.randrange(len(value))] + random.choice(("", "\0", "…", "/", "\n")),)
    return (-value, value + 1, value * 1000, str(value), [value]) if isinstance(value, int | float) else ()
