"""Words with which people say that they don't want to be written to any more, or want to again.

Invariant: only the whole text counts, however it is spelt in case, accents and punctuation: "stop" is an opt-out,
"don't stop" and "bus stop" are not.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

from contracts.conversation import Consent

_TEXT_LENGTH_MAX: Final = 60
"""No phrase of the table is longer: a longer text is not looked at."""
_ALIKE: Final = str.maketrans({"ı": "i", "İ": "i", "\u2019": "'"})
"""Letters and marks that people and keyboards mix up, and that decomposition leaves apart."""

# By language; a word that also has an everyday meaning as a whole message ("cancel", "end", "yes") is left out:
# an opt-out that nobody meant silences us for good.
_STOP: Final[dict[str, tuple[str, ...]]] = {
    "en": ("stop", "stop all", "stopall", "unsubscribe", "opt out", "optout", "opt-out", "stop promotions"),
    "es": ("parar", "baja", "darme de baja", "dar de baja", "cancelar suscripción", "no molestar"),
    "pt": ("pare", "parar", "sair", "descadastrar", "cancelar inscrição", "cancelar subscrição", "remover"),
    "fr": ("arrêt", "arrêter", "arrêtez", "désabonner", "se désabonner", "désinscrire", "désinscription"),
    "de": ("stopp", "abmelden", "abbestellen", "austragen", "keine nachrichten mehr"),
    "it": ("disiscrivi", "disiscrivimi", "annulla iscrizione", "cancellami"),
    "nl": ("stoppen", "afmelden", "uitschrijven"),
    "pl": ("rezygnuję", "wypisz", "wypisz mnie"),
    "tr": ("durdur", "abonelikten çık"),
    "id": ("berhenti", "berhenti langganan"),
    "ru": ("стоп", "отписаться", "отписка"),
    "ar": ("توقف", "إيقاف", "الغاء الاشتراك", "إلغاء الاشتراك"),
    "hi": ("रोकें", "बंद करो", "बंद करें"),
    "he": ("הסר", "הסירו"),
    "payload": ("opt_out",),
}
_START: Final[dict[str, tuple[str, ...]]] = {
    "en": ("start", "unstop", "subscribe", "opt in", "optin", "opt-in"),
    "es": ("darme de alta", "suscribir", "suscribirme", "iniciar"),
    "pt": ("iniciar", "inscrever", "subscrever", "voltar a receber"),
    "fr": ("démarrer", "s'abonner", "abonner", "réabonner"),
    "de": ("anmelden", "abonnieren"),
    "it": ("inizia", "iscrivi", "iscrivimi"),
    "nl": ("aanmelden", "inschrijven"),
    "pl": ("zapisz mnie", "subskrybuj"),
    "tr": ("başlat", "abone ol"),
    "id": ("mulai", "langganan"),
    "ru": ("старт", "подписаться"),
    "ar": ("ابدأ", "اشتراك"),
    "hi": ("शुरू करें",),
    "he": ("הצטרף",),
    "payload": ("opt_in",),
}


def normalised(text: str) -> str:
    """Return the text in the one form in which words are compared: no case, accents, outer punctuation, double spaces."""
    folded = unicodedata.normalize("NFKD", text.translate(_ALIKE)).casefold()
    kept = "".join(mark for mark in folded if unicodedata.category(mark) not in {"Mn", "Cf"})
    first, last = 0, len(kept)
    while first < last and _is_outer(kept[first]):
        first += 1
    while last > first and _is_outer(kept[last - 1]):
        last -= 1
    return " ".join(kept[first:last].split())


def _is_outer(mark: str) -> bool:
    """Punctuation, symbols (emoji among them), spaces and controls may surround a word without belonging to it."""
    return unicodedata.category(mark)[0] in "PSZC"


_WORDS: Final[dict[str, Consent]] = {
    **{normalised(word): Consent.OPTED_IN for words in _START.values() for word in words},
    **{normalised(word): Consent.OPTED_OUT for words in _STOP.values() for word in words},
}


def consent(spoken: Iterable[str]) -> Consent | None:
    """Return what a message's words (a text, a button's payload and caption) say about being written to.

    An opt-out in any of them wins: a button may be labelled in another language than its payload.
    """
    said = {_WORDS.get(normalised(words)) for words in spoken if len(words) <= _TEXT_LENGTH_MAX}
    if Consent.OPTED_OUT in said:
        return Consent.OPTED_OUT
    return Consent.OPTED_IN if Consent.OPTED_IN in said else None
