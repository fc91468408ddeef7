"""What the HTML pages share: how their templates are found, their style, and the script of their tables.

`templates/style.css` and `templates/table.js` are included by a page's own template: a page loads nothing. Needs
jinja2, which the extra `cli` installs.
"""

from functools import cache

import jinja2
from markupsafe import Markup, escape

__all__ = ["code", "environment"]


@cache
def environment(package: str, *, autoescape: bool) -> jinja2.Environment:
    """The templates in `package`'s folder `templates`, and the shared ones; each is compiled once in a process.

    Args:
        autoescape: on for HTML, where text of others must not become markup; off for Markdown.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("fa3_matrix._page")]
        ),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = code
    return environment


def code(text: str) -> Markup:
    """Text with `commands` in backticks, as HTML."""
    parts = [str(escape(part)) for part in text.split("`")]
    return Markup("".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts)))
