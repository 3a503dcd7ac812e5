"""Damaged par text gives a located error or another module, never a crash."""

import random
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from property.par.par_programs import random_module

from threadloom.errors import CompileError
from threadloom.par.text import parse, print_module

SOURCES = [print_module(random_module(seed, 6)) for seed in range(4)]
TOKENS = [re.findall(r"\s+|[\w.%@]+|.", source) for source in SOURCES]


def damaged(seed: int) -> str:
    rng = random.Random(seed)
    tokens = list(rng.choice(TOKENS))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(tokens))
        match rng.randrange(4):
            case 0:
                del tokens[at]
            case 1:
                tokens[at] = rng.choice(tokens)
            case 2:
                tokens.insert(
                    at, rng.choice(["{", "}", "i32", "%x", ",", "yield", "(", "-", '"', "0x", "align", "<4 x"])
                )
            case 3:
                tokens = tokens[:at]
                break
    return "".join(tokens)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
@example(0)
def test_damaged_text_never_crashes_the_parser(seed):
    text = damaged(seed)
    try:
        module = parse(text, "damaged.par")
    except CompileError as error:
        assert error.loc is not None and 1 <= error.loc.line <= text.count("\n") + 1
    else:
        assert parse(print_module(module, locs=True)) == module
