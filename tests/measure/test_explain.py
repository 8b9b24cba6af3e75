from vgg_kernels.measure.explain import explain, jsonable


def test_numbers_without_a_json_word_become_null():
    assert jsonable({"a": [float("nan"), float("-inf"), 1.5], "b": (1, "x", True, None)}) == {
        "a": [None, None, 1.5],
        "b": [1, "x", True, None],
    }


def test_an_explanation_is_one_line():
    assert explain(MemoryError("no room")) == "out of memory: MemoryError: no room"
