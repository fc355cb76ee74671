"""Blocks as a developer defines them, and names of things."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pagedaemon.agent import DEFAULT_LIMIT, Block, checked_label, checked_name
from pagedaemon.errors import EditRefused, InvalidInput, NotFound


class TestBlock:
    """A definition."""

    def test_what_is_not_given_has_its_default(self) -> None:
        block = Block(label="notes")
        assert (block.value, block.description, block.read_only) == ("", "", False)
        assert block.limit == DEFAULT_LIMIT

    def test_starters_are_loaded_and_their_fields_replaced(self) -> None:
        companion = Block.load("persona/companion")
        assert companion.label == "persona"
        assert companion.value
        own = Block.load("persona/companion", value="I am Ada.", limit=100)
        assert (own.label, own.value, own.limit) == ("persona", "I am Ada.", 100)
        assert own.description == companion.description

    def test_persona_and_human_take_text(self) -> None:
        assert (Block.persona("Ada").label, Block.persona("Ada").value) == ("persona", "Ada")
        assert (Block.human("Lin").label, Block.human("Lin").value) == ("human", "Lin")
        assert Block.human("Lin", read_only=True).read_only

    def test_a_starter_that_is_not_there_is_not_found(self) -> None:
        with pytest.raises(NotFound, match="persona/companion"):
            Block.load("persona/nobody")

    def test_a_value_over_its_limit_is_refused_as_every_edit_over_it_is(self) -> None:
        fields = {"label": "x", "value": "long", "limit": 2}
        for make in (Block, partial(Block.load, "human/basic")):
            with pytest.raises(EditRefused, match="holds 2 characters") as refused:
                make(**fields)
            assert (refused.value.reason, refused.value.label) == ("too_long", "x")
            assert (refused.value.limit, refused.value.size) == (2, 4)
        assert Block(label="x", value="é" * 2, limit=2).value == "éé"

    @pytest.mark.parametrize("label", ["human", "Wir_2", "été", "愛", "a-b", "x" * 60])
    def test_letters_of_any_script_are_a_label(self, label: str) -> None:
        assert Block(label=label).label == checked_label(label) == label

    @pytest.mark.parametrize("label", ["", "a b", "a\n", "[x]", "a/b", "x" * 61, "🚀", 7])
    def test_anything_else_is_none(self, label: Any) -> None:
        with pytest.raises(InvalidInput):
            Block(label=label)
        with pytest.raises(InvalidInput):
            checked_label(label)

    @pytest.mark.parametrize("given", [{"limit": 0}, {"value": "a\x00"}, {"description": "\ud800"}])
    def test_what_no_store_can_keep_is_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="Block cannot be made"):
            Block(label="x", **given)


class TestNames:
    """Display names."""

    @pytest.mark.parametrize("name", ["Büro 🚀", "אליס", "👩‍👩‍👧", "a  b"])
    def test_a_name_is_kept_to_the_letter(self, name: str) -> None:
        assert checked_name(name, "a name") == name

    def test_what_looks_the_same_is_one_name(self) -> None:
        assert checked_name(" Ame\u0301lie\t", "a name") == "Am\u00e9lie"
        assert checked_label("e\u0301te\u0301 ") == "\u00e9t\u00e9"
        assert Block(label=" e\u0301te\u0301").label == "\u00e9t\u00e9"

    @pytest.mark.parametrize("sign", ["\x07", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
    def test_control_characters_are_no_name(self, sign: str) -> None:
        with pytest.raises(InvalidInput, match="control characters"):
            checked_name(f"a{sign}b", "a name")

    @pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200f", "\u061c"])
    def test_what_turns_the_direction_of_text_is_no_name(self, sign: str) -> None:
        with pytest.raises(InvalidInput, match=f"U\\+{ord(sign):04X}"):
            checked_name(f"a{sign}b", "a name")

    @pytest.mark.parametrize("name", ["", "\t", "a\nb", "a\rb", "x" * 201, "\x00", None])
    def test_what_is_no_name_is_said_by_what_it_was_for(self, name: Any) -> None:
        with pytest.raises(InvalidInput, match="the ship's name"):
            checked_name(name, "the ship's name")
