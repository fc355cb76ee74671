"""What is read of a docstring in each of the usual styles."""

from __future__ import annotations

import pytest

from pagedaemon.tools.docstrings import Docs, read_docs

GOOGLE = """Finds the weather.

    Looks it up
    outside.

    Args:
        city: Which city,
            in English.
        days (int): How many days.

    Returns:
        A forecast.

    Raises:
        ToolFailure: no such city.
    """

NUMPY = """Finds the weather.

    Looks it up
    outside.

    Parameters
    ----------
    city : str
        Which city,
        in English.
    days : int, optional
        How many days.

    Returns
    -------
    str
        A forecast.
    """

SPHINX = """Finds the weather.

    Looks it up
    outside.

    :param city: Which city,
        in English.
    :param int days: How many days.
    :returns: A forecast.
    :raises ToolFailure: no such city.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_description_and_parameters(text: str) -> None:
    assert read_docs(text, ["city", "days"]) == Docs(
        "Finds the weather.\n\nLooks it up\noutside.",
        {"city": "Which city, in English.", "days": "How many days."},
    )


@pytest.mark.parametrize(
    "text",
    [
        "Plain words.",
        "Plain words: with a colon.",
        "Two paragraphs.\n\nThe second: more.\n- a list\n- of things",
        "",
    ],
)
def test_text_without_sections_is_all_description(text: str) -> None:
    assert read_docs(text, ["city"]) == Docs(text, {})


def test_only_the_functions_own_parameters_are_described() -> None:
    assert read_docs(GOOGLE, ["days"]).parameters == {"days": "How many days."}


def test_a_section_that_no_style_can_read_loses_no_words() -> None:
    text = "Finds it.\n\nArgs:\ncity the city"
    assert "city the city" in read_docs(text, ["city"]).description
