"""What is read of a text, a Markdown and an HTML document."""

from __future__ import annotations

import pytest

from pagedaemon.errors import InvalidInput
from pagedaemon.memory.markup import Format, format_of, pieces


def read(text: str, form: Format) -> list[tuple[str, int]]:
    """Each piece's text, and the level of a heading."""
    return [(piece.text, piece.level) for piece in pieces(text, form)]


def test_a_text_is_its_paragraphs_and_no_mark_means_anything() -> None:
    assert read("# one\r\ntwo\r\n \r\n\r\n<b>three</b>\rfour", "text") == [
        ("# one\ntwo", 0),
        ("<b>three</b>\nfour", 0),
    ]
    assert read("", "text") == []


def test_markdown_headings_in_both_spellings_are_found_and_the_rest_stays_verbatim() -> None:
    text = (
        "# One #\n\nA *word*.\n## Two\ntext\n- item\n\nThree\n=====\n\nFour\n---\n"
        "#hashtag\n####### seven\n\nlong\nparagraph\n---\n"
    )
    assert read(text, "markdown") == [
        ("# One", 1),
        ("A *word*.", 0),
        ("## Two", 2),
        ("text\n- item", 0),
        ("# Three", 1),
        ("## Four", 2),
        ("#hashtag\n####### seven", 0),
        ("long\nparagraph\n---", 0),
    ]


def test_what_looks_like_a_heading_in_a_block_of_code_is_code() -> None:
    text = "text\n```python\n# no\n\n~~~\n  x\n```\n# yes\n~~~~\n```\n~~~\n# no\n~~~~\n"
    assert read(text, "markdown") == [
        ("text", 0),
        ("```python\n# no\n\n~~~\n  x\n```", 0),
        ("# yes", 1),
        ("~~~~\n```\n~~~\n# no\n~~~~", 0),
    ]


def test_a_fence_that_never_ends_loses_nothing() -> None:
    assert read("```\na\n\n# b", "markdown") == [("```\na\n\n# b", 0)]


def test_front_matter_is_kept_as_text_and_its_end_is_no_underlining() -> None:
    assert read("---\ntitle: x\n---\n# One\n", "markdown") == [("title: x", 0), ("# One", 1)]
    assert read("---\nno end", "markdown") == [("---\nno end", 0)]


def test_html_is_what_a_reader_sees() -> None:
    text = """<!doctype html><html><head><title>A &amp; B</title>
    <style>p { color: red }</style><script>document.write("<p>no</p>")</script></head>
    <body><h1>Head <em>line</em></h1><p>One
    <a href="https://example.org">link</a><br>next&nbsp;line &lt;b&gt; &#8364;
    <!-- not shown --><ul><li>first<li><p>second</p></ul>
    <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>
    <pre>  kept
      as is</pre><svg><text>no</text></svg><img src="x.png" alt="a cat"><h3>Deep</h3>end"""
    assert read(text, "html") == [
        ("A & B", 1),
        ("Head line", 1),
        ("One link\nnext line <b> €", 0),
        ("- first", 0),
        ("second", 0),
        ("k | v\n1 | 2", 0),
        ("  kept\n      as is", 0),
        ("a cat", 0),
        ("Deep", 3),
        ("end", 0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<p>word<p",
        "<h1>head<p>word<ul><li>word",
        "<",
        "<![CDATA[",
        "<!--",
        "</svg></script></p>word",
        "&#x110000;&unknown;word",
    ],
)
def test_broken_html_is_read_as_far_as_it_goes(text: str) -> None:
    found = " ".join(piece.text for piece in pieces(text, "html"))
    assert ("word" in found) == ("word" in text)


def test_a_heading_that_is_never_closed_heads_what_follows() -> None:
    assert read("<h1>head<p>one<p>two", "html") == [("head", 1), ("one", 0), ("two", 0)]
    drawn = "<p>one<svg><title>no</title><p>no</p></svg> two</p>"
    assert read(drawn, "html") == [("one two", 0)]


def test_a_page_larger_than_one_slice_is_read_whole() -> None:
    text = "".join(f"<p>paragraph {n} &amp; more</p>" for n in range(10_000))
    found = read(text, "html")
    assert found == [(f"paragraph {n} & more", 0) for n in range(10_000)]


@pytest.mark.parametrize(
    ("given", "suffix", "meant"),
    [
        ("auto", ".MD", "markdown"),
        ("auto", ".htm", "html"),
        ("auto", ".log", "text"),
        ("auto", "", "text"),
        ("text", ".html", "text"),
    ],
)
def test_the_suffix_tells_the_format_where_nobody_does(given: str, suffix: str, meant: str) -> None:
    assert format_of(given, suffix) == meant


def test_an_unknown_format_is_said() -> None:
    with pytest.raises(InvalidInput, match="markdown"):
        format_of("pdf", ".pdf")
