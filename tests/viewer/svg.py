"""Values that tests read from an SVG, and checks of every picture."""

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


def cells(picture, which=0):
    """The colours of the cells of a heat map, or of a thumbnail of several, row by row."""
    meshes = [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("QuadMesh")]
    return [rgb(style(e)["fill"]) for e in meshes[which].iter(f"{SVG}path")]


def small_discs(picture):
    """The colours of the discs of every thumbnail; rings are left out."""
    groups = [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("PathCollection")]
    fills = [[style(e).get("fill", "#000000") for e in group.iter(f"{SVG}use")] for group in groups]
    return [[rgb(fill) for fill in thumbnail] for thumbnail in fills if thumbnail and "none" not in thumbnail]


def words(picture):
    """All texts of a picture by matplotlib, which keeps them as comments next to their outlines."""
    return re.findall(r"<!-- (.*?) -->", picture.svg, re.DOTALL)


def numbers(d):
    """The points of a path of absolute coordinates, in which H and V are lines along the axes."""
    points = []
    for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", d):
        given = [float(x) for x in re.findall(r"-?[\d.]+", rest)]
        if command == "H":
            given = [x for value in given for x in (value, points[-1])]
        elif command == "V":
            given = [x for value in given for x in (points[-2], value)]
        points += given
    return points


def rgb(colour):
    assert re.fullmatch("#[0-9A-Fa-f]{6}", colour), colour
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def assert_sound(picture):
    """The SVG is valid XML without scripts, the PNG is complete and has a plausible size."""
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
