"""Who a message is with: contact keys, and phone numbers in the one form in which two of them can be compared.

Invariant: a contact key is never null, and `to` is never rewritten; only comparisons use the folded form.
"""

import re
from typing import NewType

ContactKey = NewType("ContactKey", str)
Wamid = NewType("Wamid", str)

_NOT_DIGITS = re.compile(r"\D+")  # keeps the digits of every script
# Meta's page "Business-scoped user IDs", edition of 2026-06-29: alphanumeric, although its samples show digits alone.
_BSUID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}\Z")


def is_bsuid(value: str) -> bool:
    """Return whether `value` has the shape of a business-scoped user id (or a parent one)."""
    return _BSUID.match(value) is not None


def digits(phone: str) -> str:
    """Return the digits of a phone number, 0 to 9 whatever script they came in, without the plus sign."""
    found = _NOT_DIGITS.sub("", phone)
    return found if found.isascii() else "".join(str(int(digit)) for digit in found)


def folded_phone(phone: str) -> str:
    """Return the digits under which all national variants of one number are equal.

    Brazil (with and without the ninth digit), Mexico (`52` and `521`) and Argentina (`54` and `549`) occur in both
    forms for one person (Meta names the first two, 2026-09-11; chatwoot matches all). For comparison alone: what we send
    to stays as given.
    """
    d = digits(phone)
    if d.startswith("55") and len(d) == 13 and d[4] == "9" and d[5] in "6789":
        return d[:4] + d[5:]
    if d.startswith("521") and len(d) == 13:
        return "52" + d[3:]
    if d.startswith("549") and len(d) == 13:
        return "54" + d[3:]
    return d


def contact_key(phone_number_id: str, *, user_id: str | None, wa_id: str | None) -> ContactKey:
    """Return `<phone_number_id>:<user_id, else wa_id>`; an unknown person shares the key `<phone_number_id>:-`.

    A user id in the place of a wa_id, as in a webhook among courier's tests (2026-08), counts as what it looks like.
    """
    if not user_id and wa_id:
        user_id = wa_id if is_bsuid(wa_id) else digits(wa_id)
    return ContactKey(f"{phone_number_id}:{user_id or '-'}")
