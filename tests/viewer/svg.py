"""What a test reads out of an SVG, and what every picture must be."""

import re
import struct
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def root(picture):
    return ET.fromstring(picture.svg)


def style(element):
    """The style of an element as a dict."""
    pairs = (pair.split(":", 1) for pair in element.get("style", "").split(";") if ":" in pair)
    return {key.strip(): value.strip() for key, value in pairs}


def discs(picture):
    """(centre, colour) of every filled disc, in order of the atoms."""
    found = []
    for e in root(picture).iter(f"{SVG}ellipse"):
        fill = style(e)["fill"]
        if fill != "none":
            found.append(((float(e.get("cx")), float(e.get("cy"))), rgb(fill)))
    return found


def rings(picture):
    """The centres of the coloured rings."""
    found = []
    for e in root(picture).iter(f"{SVG}ellipse"):
        red, _, blue = rgb(style(e)["stroke"])
        if style(e)["fill"] == "none" and red > 2 * blue:
            found.append((float(e.get("cx")), float(e.get("cy"))))
    return found


def cells(picture):
    """The colours of the cells of a heat map, row by row."""
    mesh = next(e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("QuadMesh"))
    return [rgb(style(e)["fill"]) for e in mesh.iter(f"{SVG}path")]


def rgb(colour):
    assert re.fullmatch("#[0-9A-Fa-f]{6}", colour), colour
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def assert_sound(picture):
    """Valid XML that brings no script, and a PNG of a plausible size with its end."""
    names = {e.tag for e in root(picture).iter()}
    assert f"{SVG}svg" in names
    assert f"{SVG}script" not in names
    assert picture.png.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.png.endswith(b"IEND\xaeB`\x82")
    width, height = png_size(picture.png)
    assert 200 <= width <= 3000
    assert 200 <= height <= 3000
    assert 1_000 < len(picture.png) < 2_000_000


def png_size(png):
    return struct.unpack(">II", png[16:24])
