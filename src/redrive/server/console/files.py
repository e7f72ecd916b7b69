# SPDX-License-Identifier: MIT
"""The files of the pages: stylesheet, script, fonts, icons. Their address changes with their content.

All of them stand below one digest, ``/static/1f3a…/console.css``, so that one file can refer to another by its name,
and a browser keeps them for as long as they are the same.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_FOR_GOOD: Final = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def files() -> dict[str, bytes]:
    """Return the files that browsers get, by their names."""
    found = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in found}


@cache
def digest() -> str:
    """Return the digest of all files."""
    whole = blake2b(digest_size=8)
    for name, data in files().items():
        whole.update(name.encode() + b"\0" + data)
    return whole.hexdigest()


def address(name: str) -> str:
    """Return where a file is.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in files():
        raise KeyError(name)
    return f"/static/{digest()}/{name}"


@router.get("/static/{version}/{name:path}")
async def get_file(version: str, name: str) -> Response:
    """Return a file; one of another version than this server's is not kept by browsers."""
    return file_response(version, name)


def file_response(version: str, name: str) -> Response:
    """Return the response with a file, or that there is none."""
    data = files().get(name)
    if data is None:
        return Response(status_code=404)
    kept = _FOR_GOOD if version == digest() else "no-cache"
    return Response(data, media_type=_TYPES[Path(name).suffix], headers={"cache-control": kept})


@router.get("/favicon.ico")
async def get_icon() -> Response:
    """Return the icon that browsers ask for by themselves."""
    return Response(files()["icon.svg"], media_type=_TYPES[".svg"], headers={"cache-control": "max-age=86400"})
