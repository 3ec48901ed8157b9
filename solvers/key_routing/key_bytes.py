"""Keys as bytes: any bytes are a key, and no key is too long to be counted or routed."""

from __future__ import annotations

import hashlib

from ballast.contracts.errors import InvalidInput

LONGEST_KEY = 256
"""Bytes. A longer key is stood for by its digest, so that statistics stay small."""
_DIGEST_MARK = b"\x00blake2b:"


def key_bytes(key: str | bytes) -> bytes:
    """The key as statistics and tables know it. Text that was made from bytes that are not
    UTF-8 (surrogate escapes) becomes those bytes again; other lone surrogates are taken as they
    are."""
    if isinstance(key, str):
        key = _encoded(key)
    elif not isinstance(key, bytes):
        raise InvalidInput(f"a key is {type(key).__name__}", allowed="str or bytes")
    if len(key) <= LONGEST_KEY:
        return key
    return _DIGEST_MARK + hashlib.blake2b(key, digest_size=32).digest()


def _encoded(key: str) -> bytes:
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")


def fingerprint(key: bytes, salt: int = 0) -> int:
    """64 bits of the key, the same in every process (Python's own hash is not)."""
    digest = hashlib.blake2b(key, digest_size=8, salt=salt.to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big")
