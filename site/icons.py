"""The icons of the pages, drawn where they stand. The theme would take them from a font of two
thousand; as pictures of the style sheet each would cost a browser as much as a small page."""

import re

DRAWN = {
    "bars": '<path d="M2 4h12M2 8h12M2 12h12"/>',
    "list": '<path d="M6 4h8M6 8h8M6 12h8M2 4h1M2 8h1M2 12h1"/>',
    "magnifying-glass": '<path d="M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0zM10.5 10.5 14 14"/>',
    "sun": '<path d="M11 8a3 3 0 1 1-6 0 3 3 0 0 1 6 0zM8 1v2M8 13v2M1 8h2M13 8h2'
    'M3 3l1.4 1.4M11.6 11.6 13 13M3 13l1.4-1.4M11.6 4.4 13 3"/>',
    "moon": '<path d="M13 10A6 6 0 0 1 6 3a5.5 5.5 0 1 0 7 7z"/>',
    "circle-half-stroke": '<circle cx="8" cy="8" r="6"/>'
    '<path d="M8 2a6 6 0 0 1 0 12z" fill="currentcolor"/>',
    "chevron-down": '<path d="M3 6l5 5 5-5"/>',
    "play": '<path d="M4 2.5v11l9-5.5z" stroke-linejoin="round"/>',
    "angle-right": '<path d="M6 3l5 5-5 5"/>',
    "angle-left": '<path d="M10 3 5 8l5 5"/>',
}
ICON = re.compile(r'<i class="([^"]*\bfa-([a-z-]+))"([^>]*)>\s*</i>')


def drawn(html: str) -> str:
    """A page with a drawing in place of each element that asks for the theme's font."""

    def drawing(match: re.Match) -> str:
        classes, name, rest = match.groups()
        if name not in DRAWN:
            known = ", ".join(DRAWN)
            raise ValueError(f"expected one of the icons {known}, got {name}; draw it in DRAWN")
        tag = f'<svg class="{classes}"{rest} viewBox="0 0 16 16" aria-hidden="true">'
        return f"{tag}{DRAWN[name]}</svg>"

    return ICON.sub(drawing, html)
