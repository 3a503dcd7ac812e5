"""Stand-ins for Rodinia's inputs, which are not in the repositories that carry its code.

Same file formats, our own numbers, always the same ones. A file that the checkout has is used instead.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np


def provide(data: Path, checkout_data: Path, names: tuple[str, ...]) -> None:
    """Make `data` a folder with the files `names`: links to the checkout's, or generated."""
    if data.is_symlink():
        data.unlink()
    for name in names:
        place = data / name
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if (checkout_data / name).exists():
            place.symlink_to(checkout_data / name)
            continue
        part = place.with_name(place.name + ".part")
        MAKERS[name](part)
        os.replace(part, place)


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _lines(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(rows) + "\n")


def btree_keys(path: Path) -> None:
    n = 1_000_000
    _lines(path, [str(n), *map(str, range(n))])


def btree_commands(path: Path) -> None:
    path.write_text("j 6000 3000\n\nk 10000\n")


def bfs_graph(nodes: int) -> Callable[[Path], None]:
    """Node table (first edge, edges), source node, edge table (target, weight)."""

    def make(path: Path) -> None:
        rng = _rng("bfs")
        degrees = rng.integers(1, 12, nodes)
        first = np.concatenate([[0], np.cumsum(degrees)[:-1]])
        edges = int(degrees.sum())
        rows = [str(nodes), *(f"{a} {b}" for a, b in zip(first.tolist(), degrees.tolist(), strict=True))]
        rows += ["", "0", "", str(edges)]
        targets, weights = rng.integers(0, nodes, edges).tolist(), rng.integers(1, 11, edges).tolist()
        rows += [f"{a} {b}" for a, b in zip(targets, weights, strict=True)]
        _lines(path, rows)

    return make


def column(count: int, low: float, high: float) -> Callable[[Path], None]:
    """One number per line: hotspot's temperatures (K) and powers (W)."""

    def make(path: Path) -> None:
        _lines(path, [f"{value:.6f}" for value in _rng(path.name).uniform(low, high, count).tolist()])

    return make


def cfd_domain(nx: int, ny: int, nz: int) -> Callable[[Path], None]:
    """A box of cells with four neighbours each: -1 is a wall, -2 the far field."""

    def make(path: Path) -> None:
        rng = _rng("cfd")
        jitter = rng.uniform(-0.01, 0.01, (nx, ny, nz, 4, 3))
        rows = [str(nx * ny * nz)]
        for i in range(nx):
            for j in range(ny):
                for k in range(nz):
                    cells = [f"{1 / nx:.6f}"]
                    for side, (di, dj) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
                        a, b = i + di, j + dj
                        inside = 0 <= a < nx and 0 <= b < ny
                        neighbour = (a * ny + b) * nz + k + 1 if inside else (-1 if dj == -1 else -2)
                        x, y, z = jitter[i, j, k, side]
                        cells.append(f"{neighbour} {di * 0.5 + x:.5f} {dj * 0.5 + y:.5f} {z:.5f}")
                    rows.append(" ".join(cells))
        _lines(path, rows)

    return make


def kmeans_points(count: int, features: int = 34) -> Callable[[Path], None]:
    """An id and its features per line, drawn around twelve centres."""

    def make(path: Path) -> None:
        rng = _rng("kmeans")
        centres = rng.uniform(0, 100, (12, features))
        points = centres[rng.integers(0, 12, count)] + rng.normal(0, 8, (count, features))
        _lines(path, [f"{i} " + " ".join(f"{v:.3f}" for v in row) for i, row in enumerate(points.tolist())])

    return make


def speckled_image(path: Path) -> None:
    """A plain PGM, 502 x 458, smooth shapes under multiplicative noise."""
    rows, columns = 502, 458
    y, x = np.mgrid[0:rows, 0:columns]
    shapes = 100 + 60 * np.sin(x / 31) * np.cos(y / 23)
    noisy = np.clip(shapes * _rng("srad").rayleigh(0.8, shapes.shape), 1, 255).astype(int)
    text = [" ".join(map(str, row)) for row in noisy.tolist()]
    path.write_text(f"P2\n# stand-in\n{columns} {rows}\n255\n" + "\n".join(text) + "\n")


def storms(path: Path) -> None:
    """Records of 49 characters: year month day hour number name latitude longitude speed pressure."""
    rng = _rng(path.name)
    rows = []
    for _ in range(10691):
        lat, lon = rng.uniform(7, 70), rng.uniform(0, 359)
        date = f"{rng.integers(1950, 2005):4d} {rng.integers(1, 13):2d} {rng.integers(1, 29):2d}"
        when = f"{date} {6 * rng.integers(0, 4):2d} {rng.integers(1, 29):2d}"
        rows.append(f"{when} {'STORM' + chr(65 + rng.integers(26)):<9s} {lat:5.1f} {lon:5.1f} "
                    f"{rng.integers(10, 165):4d} {rng.integers(0, 900):4d}")  # fmt: skip
    _lines(path, rows)


def skewed_bytes(path: Path) -> None:
    """A million symbols with a falling distribution, for a Huffman code of more than one length."""
    symbols = np.minimum(_rng("huffman").geometric(0.2, 1 << 20) - 1, 255)
    path.write_bytes(symbols.astype(np.uint8).tobytes())


def genome(length: int) -> np.ndarray:
    return np.frombuffer(b"ACGT", np.uint8)[_rng("genome").integers(0, 4, length)]


def reference_sequence(path: Path) -> None:
    path.write_bytes(b">reference\n" + b"\n".join(genome(200_000).reshape(-1, 80).view("S80")[:, 0]) + b"\n")


def query_sequences(path: Path) -> None:
    """Reads of 100 letters from the reference, every tenth letter of every other read changed."""
    text, rng = genome(200_000), _rng("queries")
    rows = []
    for i, start in enumerate(rng.integers(0, len(text) - 100, 2000).tolist()):
        read = text[start : start + 100].copy()
        if i % 2:
            read[::10] = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, 10)]
        rows += [f">read{i}", read.tobytes().decode()]
    _lines(path, rows)


# 91 unknowns of a heart muscle cell (gates, mM, uM, mV) at rest: the twin's equations followed for a second from the
# published resting state of Shannon's model. From any state that is no solution the solver gives up, or not, by chance.
_RESTING_CELL = """
    0.00137137 0.987132 0.991818 7.00099e-6 1.00068 0.0248617 0.0147579 0.00401199 0.994572 0.00401199 0.994631
    0.00847406 0.00536459 0.901261 7.80253e-7 8.54806e-8 3.53716 0.771893 0.00878482 0.107873 0.0152261
    0.000291192 0.00130319 0.138195 0.00214358 0.00753993 0.00970846 0.0741937 0.112291 1.25022 0.560525 8.77711
    8.77868 8.77909 135 0.000178344 0.000104725 8.59831e-5 -85.7167 0.994607 1 0 0.042311 -0.208995 -2.74554
    1.79768 0.0625064 0.00377955 4.49456e-7 0.00976161 0.00132085 7.30652e-8 0.000756288 1.38686e-5 5.47359e-11
    4.56791e-14 5.96274e-11 0.145505 0.000776879 0.00664684 0.000215379 0.0178954 3.56159e-5 1.78183e-9 0.013173
    0.00116667 2.2259e-8 7.1794e-6 1.87258e-6 9.13275e-5 1.65871e-9 0.00010151 0.00409884 6.28985e-6 4.2214e-5
    0.000104259 0.017898 3.27636e-5 1.51956e-9 0.0132371 0.00110251 1.41805e-8 6.6086e-6 1.85693e-6 9.13206e-5
    1.60075e-9 0.000101517 0.00412933 6.3375e-6 4.19133e-5 0.000101525
"""


def cell_state(path: Path) -> None:
    _lines(path, _RESTING_CELL.split())


def cell_parameters(path: Path) -> None:
    values = [1000, 418, 0, 120, 3.6, 96.5, 5.65, 24.2, 0.0993, 0.003, 0.57, 5.65, 24.2, 0.0993, 0.003, 0.57, 0, 0]
    _lines(path, [f"{value:.6e}" for value in values])


def video(frames: int, rows: int, columns: int, radius: float) -> Callable[[Path], None]:
    """An uncompressed 8-bit AVI: dark rings (cells) drift over a noisy background."""

    def make(path: Path) -> None:
        rng = _rng("video" + path.name)
        y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
        centres = rng.uniform((60, 60), (rows - 60, columns - 60), (40, 2))
        background = 150 + 10 * np.sin(x / 40) + 10 * np.cos(y / 33)
        pictures = []
        for frame in range(frames):
            picture = background + rng.normal(0, 4, (rows, columns))
            for cy, cx in centres + frame * np.array([0.3, 0.5]):
                distance = np.hypot(y - cy, x - cx)
                picture -= 70 * np.exp(-(((distance - radius) / 2.0) ** 2))
            pictures.append(np.clip(picture, 0, 255).astype(np.uint8).tobytes())
        path.write_bytes(_avi(pictures, rows, columns))

    return make


def moving_texture(frames: int, rows: int, columns: int) -> Callable[[Path], None]:
    """An uncompressed 8-bit AVI of a smooth random texture that moves by a pixel a frame, so that it can be tracked."""

    def make(path: Path) -> None:
        texture = _rng("texture").normal(0, 1, (rows + frames, columns + frames))
        for axis in (0, 1):
            for _ in range(3):
                texture = texture + np.roll(texture, 1, axis) + np.roll(texture, -1, axis)
        texture = np.clip(128 + 45 * texture / texture.std(), 0, 255).astype(np.uint8)
        pictures = [texture[f : f + rows, f : f + columns].tobytes() for f in range(frames)]
        path.write_bytes(_avi(pictures, rows, columns))

    return make


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _avi(pictures: list[bytes], rows: int, columns: int) -> bytes:
    """RIFF: header list, `movi` list of 00db chunks, index."""
    size = rows * columns
    main = struct.pack("<14I", 40000, 25 * size, 0, 0x10, len(pictures), 0, 1, size, columns, rows, 0, 0, 0, 0)
    stream = b"vidsDIB " + struct.pack(
        "<IHHIIIIIIII4H", 0, 0, 0, 0, 1, 25, 0, len(pictures), size, 0, size, 0, 0, columns, rows
    )
    form = struct.pack("<IiiHHIIiiII", 40, columns, rows, 1, 8, 0, size, 0, 0, 0, 0)
    header = _chunk(
        b"LIST",
        b"hdrl" + _chunk(b"avih", main) + _chunk(b"LIST", b"strl" + _chunk(b"strh", stream) + _chunk(b"strf", form)),
    )
    movie, index, place = b"movi", b"", 4
    for picture in pictures:
        chunk = _chunk(b"00db", picture)
        index += b"00db" + struct.pack("<III", 0x10, place, len(picture))
        place += len(chunk)
        movie += chunk
    return _chunk(b"RIFF", b"AVI " + header + _chunk(b"LIST", movie) + _chunk(b"idx1", index))


def rgb_image(path: Path) -> None:
    """Raw 8-bit RGB, 1024 x 1024 (dwt2d reads no header)."""
    y, x = np.mgrid[0:1024, 0:1024]
    channels = [127 + 100 * np.sin(x / (20 + 7 * c)) * np.cos(y / (31 - 5 * c)) for c in range(3)]
    noisy = np.stack(channels, -1) + _rng("rgb").normal(0, 6, (1024, 1024, 3))
    path.write_bytes(np.clip(noisy, 0, 255).astype(np.uint8).tobytes())


MAKERS: dict[str, Callable[[Path], None]] = {
    "b+tree/mil.txt": btree_keys,
    "b+tree/command.txt": btree_commands,
    "bfs/graph65536.txt": bfs_graph(65536),
    "bfs/graph262144.txt": bfs_graph(262_144),
    "bfs/graph1MW_6.txt": bfs_graph(1_000_000),
    "cfd/fvcorr.domn.097K": cfd_domain(48, 48, 42),
    "cfd/box.domn.004K": cfd_domain(16, 16, 16),
    "hotspot/temp_512": column(512 * 512, 323, 341),
    "hotspot/power_512": column(512 * 512, 0, 1e-3),
    "hotspot/temp_1024": column(1024 * 1024, 323, 341),
    "hotspot/power_1024": column(1024 * 1024, 0, 1e-3),
    "hotspot3D/temp_512x8": column(512 * 512 * 8, 323, 341),
    "hotspot3D/power_512x8": column(512 * 512 * 8, 0, 1e-3),
    "kmeans/kdd_cup": kmeans_points(100_000),
    "srad/image.pgm": speckled_image,
    "huffman/test1024_H2.206587175259.in": skewed_bytes,
    "mummergpu/NC_003997.fna": reference_sequence,
    "mummergpu/NC_003997_q100bp.fna": query_sequences,
    "myocyte/y.txt": cell_state,
    "myocyte/params.txt": cell_parameters,
    "heartwall/test.avi": moving_texture(20, 656, 744),
    "leukocyte/testfile.avi": video(10, 480, 640, 12.0),
    "dwt2d/rgb.bmp": rgb_image,
    **{f"nn/cane4_{i}.db": storms for i in range(4)},
}
