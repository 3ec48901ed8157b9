"""Keys as bytes, and their fingerprints. Any bytes are a key, of any length."""

from __future__ import annotations

import hashlib

from ballast.contracts.errors import InvalidInput

LONGEST_KEY = 256
"""Bytes. A digest replaces a longer key, so that statistics stay small."""
_DIGEST_MARK = b"\x00blake2b:"


def key_bytes(key: str | bytes) -> bytes:
    """Return the key as statistics and routing tables store it.

    Text with surrogate escapes becomes the bytes that it was decoded from. Other lone surrogates
    are encoded as they are.

    Raises:
        InvalidInput: the key is neither text nor bytes.
    """
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
    """Return 64 bits of the key that are the same in every process, unlike Python's hash."""
    digest = hashlib.blake2b(key, digest_size=8, salt=salt.to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big")
