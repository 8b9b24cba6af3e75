"""Looking a name up: what is there is returned, what is not is answered with all that is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.workload.lookup import UnknownName, lookup


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), st.integers(), min_size=1), st.text())
def test_a_name_is_found_or_the_error_lists_every_accepted_one(table, name):
    if name in table:
        assert lookup("thing", name, table) == table[name]
        return
    with pytest.raises(UnknownName) as error:
        lookup("thing", name, table)
    assert repr(name) in str(error.value)
    assert all(accepted in str(error.value) for accepted in table)


def test_an_unknown_name_is_a_value_error_that_says_of_which_kind():
    with pytest.raises(ValueError, match="unknown tier 'int4'; accepted: fp16, bf16"):
        lookup("tier", "int4", {"fp16": 1, "bf16": 2})
