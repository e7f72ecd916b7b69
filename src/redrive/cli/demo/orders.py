# SPDX-License-Identifier: MIT
"""The orders of the shop's customers: the same number is always the same order."""

from random import Random
from typing import Any, Final

_NAMES: Final = ("Ann", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Ida", "Jon", "Kim", "Lea", "Max")
_STREETS: Final = ("Elm Street", "Harbour Road", "Mill Lane", "Station Square")
_ARTICLES: Final = (("lamp", 49.0), ("table", 320.0), ("chair", 89.0), ("sofa", 1_290.0), ("rug", 140.0))
_CARDS: Final = ("Visa", "Visa", "Mastercard", "Maestro")

BAD_JSON: Final = b'{"order": "L-%d", "total": 19,90, "card": "Visa"}'
"""What the old till sends: a comma where JSON wants a point."""


def order(number: int) -> dict[str, Any]:
    """Return an order; one in 40 has no address."""
    chance = Random(number)
    article, price = chance.choice(_ARTICLES)
    pieces = chance.randint(1, 3)
    return {
        "order": f"A-{number}",
        "customer": chance.choice(_NAMES),
        "address": None if number % 40 == 0 else f"{chance.randint(1, 99)} {chance.choice(_STREETS)}",
        "article": article,
        "pieces": pieces,
        "total": round(price * pieces, 2),
        "card": chance.choice(_CARDS),
    }
