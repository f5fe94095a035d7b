"""The decisions in the outgoing side: when a body goes again, and in which order a batch is drawn."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from simulator.callbacks import redelivery_s, shuffled_places
from simulator.scenario import Webhooks


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(min_value=0), st.data())
def test_a_shuffled_batch_repeats_nothing_and_keeps_texts_in_order(is_text, seed, data):
    size = data.draw(st.integers(min_value=1, max_value=len(is_text)))
    places = shuffled_places(is_text, size, Random(seed))
    assert len(places) == len(set(places)) == size
    texts = [place for place in places if is_text[place]]
    assert texts == [place for place, text in enumerate(is_text) if text][: len(texts)]


def test_a_shuffled_batch_is_shuffled():
    assert shuffled_places([False] * 50, 50, Random(1)) != list(range(50))


def test_redelivery_is_at_once_then_grows_up_to_its_cap():
    settings = Webhooks(retry_base_s=1, retry_cap_s=10)
    delays = [redelivery_s(attempts, settings, Random(1)) for attempts in range(1, 9)]
    assert delays[0] == 0
    assert 0.8 <= delays[1] <= 1.2
    assert delays[1] < delays[2] < delays[3] < delays[4]
    assert max(delays) <= 12
    assert redelivery_s(10_000, settings, Random(1)) <= 12
