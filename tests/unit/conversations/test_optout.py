"""Opt-outs and opt-ins: the whole text, in several languages, however it is spelt."""

import pytest

from contracts.conversation import Consent
from contracts.inbound import spoken_words
from conversations import optout


@pytest.mark.parametrize(
    "text",
    [
        "STOP", "stop", " Stop. ", "¡STOP!", "«stop»", "stop 🛑", "🛑STOP🛑", "S\u200bTOP", "STÓP", "ＳＴＯＰ", "stop\n",
        "Opt  out",
        "unsubscribe!", "darme de baja", "Cancelar suscripcion", "SAIR", "descadastrar", "arrêt", "ARRET", "se désabonner",
        "Abmelden", "stopp!", "Disiscrivimi", "uitschrijven", "wypisz mnie", "СТОП", "إيقاف", "ايقاف", "बंद करो", "הסר",
        "OPT_OUT",
    ],
)  # fmt: skip
def test_a_stop_word_alone_is_an_opt_out(text):
    assert optout.consent([text]) is Consent.OPTED_OUT


@pytest.mark.parametrize(
    "text", ["START", "start.", "unstop", "Subscribe", "darme de alta", "s’abonner", "OPT_IN"]
)
def test_a_start_word_alone_is_an_opt_in(text):
    assert optout.consent([text]) is Consent.OPTED_IN


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "...", "🛑", "don't stop", "bus stop", "stop it please", "stopstop", "s t o p", "STOP" * 1000, "yes", "no",
        "alto",
        "ok", "st\x00op",
    ],
)  # fmt: skip
def test_anything_else_is_neither(text):
    assert optout.consent([text]) is None


def test_an_opt_out_in_a_buttons_payload_wins_over_its_label():
    assert optout.consent(["OPT_OUT", "Start"]) is Consent.OPTED_OUT
    assert optout.consent(["whatever", "Stop"]) is Consent.OPTED_OUT
    assert optout.consent([]) is None


def test_no_word_means_both():
    assert {optout.normalised(w) for words in optout._STOP.values() for w in words}.isdisjoint(
        {optout.normalised(w) for words in optout._START.values() for w in words}
    )


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"text":{"body":"Stop"}}', Consent.OPTED_OUT),
        (b'{"button":{"payload":"OPT_OUT","text":"x"}}', Consent.OPTED_OUT),
        (b'{"interactive":{"button_reply":{"id":"OPT_IN","title":"x"}}}', Consent.OPTED_IN),
        (b'{"reaction":{"emoji":"","message_id":"w"}}', None),
        (b'{"text":"STOP"}', None),
        (b"[" * 5000, None),
    ],
)
def test_words_are_found_where_messages_carry_them(raw, found):
    assert optout.consent(spoken_words(raw)) is found
