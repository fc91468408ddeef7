"""Comments that begin with #, blanked: what is left stands where it stood."""

import re

_STRING_OR_COMMENT = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?P<comment>(?:(?<=[\s;])|^)\#[^\n]*)|\\.""",
    re.VERBOSE | re.MULTILINE,
)


def blanked(text: str) -> str:
    """``text`` of the same length, blanks for its comments; of shells, make, YAML, TOML and Dockerfiles."""
    return _STRING_OR_COMMENT.sub(
        lambda match: " " * len(match[0]) if match["comment"] else match[0], text
    )
