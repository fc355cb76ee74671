"""Blocks as a developer defines them, and names of things."""

from __future__ import annotations

from typing import Any

import pytest

from pagedaemon.agent import DEFAULT_LIMIT, Block, checked_label, checked_name
from pagedaemon.errors import InvalidInput, NotFound


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

    def test_a_name_is_kept_to_the_letter(self) -> None:
        assert checked_name(" Büro 🚀 ", "a name") == " Büro 🚀 "

    @pytest.mark.parametrize("name", ["", "\t", "a\nb", "a\rb", "x" * 201, "\x00", None])
    def test_what_is_no_name_is_said_by_what_it_was_for(self, name: Any) -> None:
        with pytest.raises(InvalidInput, match="the ship's name"):
            checked_name(name, "the ship's name")
