"""The text part of a message whose template has none: what its HTML says, in lines."""

import re
from copy import copy
from typing import Final

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.html_properties import Display, WhiteSpace
from inscriptis.model.canvas import block
from inscriptis.model.config import ParserConfig
from inscriptis.model.html_element import HtmlElement
from lxml import etree

# inscriptis resolves character references in what lxml has resolved already, and again for each table around it, so
# that `?a=1&copy=2` would lose its `&copy`.  It has no setting for that.
block.unescape = str

#: Whoever reads text can follow these; a path needs a site, and a script a browser.
_LINK: Final = re.compile(r"(?!javascript:|vbscript:|data:)[a-z][a-z0-9+.-]*:(?://)?(?P<place>.+)", re.IGNORECASE)
_PREFORMATTED: Final = {("white-space", kept) for kept in ("pre", "pre-line", "pre-wrap")}


def text_of(html: str) -> str:
    """Return the text that a rendered HTML part shows; "" if it shows none.

    Links stand as `text <address>`, unless the address is the text.  An element with `display: none` or `hidden` is
    left out; other styles change nothing.  Raises what lxml and inscriptis raise, which may quote the HTML.
    """
    # Without `huge_tree` libxml2 drops, silently, what is nested deeper than 256 levels; Python's own limit is told.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    tree = etree.fromstring(html.encode(), parser)
    if tree is None:
        return ""
    for link in tree.iter("a"):
        _show_address(link)
    lines = Inscriptis(tree, _configuration()).get_text().split("\n")
    # One blank line between paragraphs is enough.
    return re.sub("\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")


def _configuration() -> ParserConfig:
    # inscriptis writes into the one for the body.
    css = STRICT_CSS_PROFILE | {"body": copy(STRICT_CSS_PROFILE["body"])}
    configuration = ParserConfig(css=css, display_images=True)
    # Its own reading of styles would pad lines as wide, and leave as many blank, as a mail says.
    configuration.attribute_handler.attribute_mapping = {"style": _style, "hidden": _hide}
    return configuration


def _show_address(element: etree._Element) -> None:
    address = re.sub(r"[\t\r\n]", "", element.get("href", "")).strip().replace(" ", "%20")
    link = _LINK.fullmatch(address)
    if link is None or link["place"].rstrip("/") in "".join(map(str, element.itertext())):
        return
    shown = f" <{address}>"
    if len(element):
        element[-1].tail = (element[-1].tail or "") + shown
    else:
        element.text = (element.text or "") + shown


def _style(style: str, element: HtmlElement) -> None:
    for declaration in style.lower().split(";"):
        name, _, value = declaration.partition(":")
        said = name.strip(), value.strip().removesuffix("!important").strip()
        if said == ("display", "none"):
            element.display = Display.none
        elif said in _PREFORMATTED:
            element.whitespace = WhiteSpace.pre


def _hide(_: str, element: HtmlElement) -> None:
    element.display = Display.none
