"""Answers that were given: kept within a room, the least asked for forgotten first."""

from api.http.response_cache import LARGEST_BYTES, CachedAnswer, ResponseCache


def given(size: int) -> CachedAnswer:
    return CachedAnswer(bytes(size), "application/json", {"ETag": str(size)})


def test_what_was_not_asked_for_the_longest_is_forgotten():
    answered = ResponseCache(room_bytes=100)
    for question in ("one", "two"):
        answered.keep(question, given(40))
    assert answered.find("one") == given(40)
    answered.keep("three", given(40))
    assert answered.find("two") is None
    assert answered.find("one") == answered.find("three") == given(40)


def test_a_large_answer_takes_no_room():
    answered = ResponseCache()
    answered.keep("small", given(10))
    answered.keep("large", given(LARGEST_BYTES + 1))
    assert answered.find("large") is None
    assert answered.find("small") == given(10)
