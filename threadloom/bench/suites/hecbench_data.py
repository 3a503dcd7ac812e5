"""Stand-ins for inputs of HeCBench's programs that its repository keeps elsewhere: same formats, our own numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from threadloom.bench.suites import rodinia_data

Maker = Callable[[Path], None]


def provide(program: str, folder: Path) -> None:
    """Make the files that `program` reads and the checkout lacks; paths are relative to its folder in the copy."""
    for name, make in INPUTS.get(program, {}).items():
        place = writable(folder, name)
        if not place.exists():
            make(place)


def writable(folder: Path, name: str) -> Path:
    """The place of `name`, with folders on the way there that are links to the checkout made real ones of links."""
    place = Path(folder)
    for part in Path(name).parent.parts:
        place = place.parent if part == ".." else place / part
        if place.is_symlink():
            origin = place.resolve()
            place.unlink()
            place.mkdir()
            for beside in origin.iterdir():
                (place / beside.name).symlink_to(beside)
        place.mkdir(exist_ok=True)
    return place / Path(name).name


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def ecl_graph(nodes: int, degree: int, weights: bool = False) -> Maker:
    """A symmetric graph without self-edges in ECL's binary form: nodes, edges, first edge of each, sorted targets,
    and weights where wanted; about `degree` edges a node."""

    def make(path: Path) -> None:
        rng = _rng("ecl")
        pairs = rng.integers(0, nodes, (nodes * degree // 2, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
        first = np.searchsorted(both[:, 0], np.arange(nodes + 1))
        parts = [np.array([nodes, len(both)]), first, both[:, 1]]
        if weights:
            low, high = both.min(axis=1), both.max(axis=1)
            parts.append((low * 7919 + high * 104729) % 100 + 1)
        path.write_bytes(np.concatenate(parts).astype(np.int32).tobytes())

    return make


def signed_edges(path: Path) -> None:
    """graphB+: a line of names, then source, target and sign of each edge."""
    rng = _rng("signs")
    pairs = np.unique(np.sort(rng.integers(0, 2000, (12000, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    signs = rng.choice([-1, 1], len(pairs), p=[0.2, 0.8])
    rows = [f"{a},{b},{s}" for (a, b), s in zip(pairs.tolist(), signs.tolist(), strict=True)]
    path.write_text("\n".join(["From Node ID,To Node ID,Edge Weight", *rows]) + "\n")


def edge_list(path: Path) -> None:
    rng = _rng("edges")
    pairs = np.unique(np.sort(rng.integers(0, 500, (2000, 2)), axis=1), axis=0)
    path.write_text("\n".join(f"{a} {b}" for a, b in pairs.tolist() if a != b) + "\n")


def bitmap(width: int, height: int, noise: float = 0) -> Maker:
    """24-bit BMP without compression; `noise` is its standard deviation."""

    def make(path: Path) -> None:
        y, x = np.mgrid[0:height, 0:width]
        channels = [127 + 100 * np.sin(x / (9 + 5 * c)) * np.cos(y / (17 - 3 * c)) for c in range(3)]
        noisy = np.stack(channels, -1) + noise * _rng("noise").normal(size=(height, width, 3))
        pixels = np.clip(noisy, 0, 255).astype(np.uint8).tobytes()
        head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
        info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
        path.write_bytes(head + info + pixels)

    return make


def point_sources(path: Path) -> None:
    """Dirty image of a few sources: 512 x 512 raw f32; the spread function (psf*) is one source in the middle."""
    y, x = np.mgrid[0:512, 0:512]
    rng = _rng("sources")
    places = [(256.0, 256.0, 1.0)]
    if not path.name.startswith("psf"):
        places = list(zip(rng.uniform(100, 400, 12), rng.uniform(100, 400, 12), rng.uniform(0.5, 3, 12), strict=True))
    image = np.zeros((512, 512))
    for row, column, flux in places:
        distance = np.hypot(y - row, x - column)
        image += flux * np.exp(-(distance**2) / 18) * np.cos(distance / 4)
    path.write_bytes(image.astype(np.float32).tobytes())


def numbers(count: int, low: float, high: float) -> Maker:
    def make(path: Path) -> None:
        path.write_text("\n".join(f"{value:.6f}" for value in _rng(path.name).uniform(low, high, count)) + "\n")

    return make


def cities(path: Path) -> None:
    """2^21 lines of latitude and longitude, degrees; no two on opposite sides: geodesic's iteration would not end."""
    rng = _rng("cities")
    rows = np.stack([rng.uniform(-60, 75, 1 << 21), rng.uniform(-75, 75, 1 << 21)], axis=1)
    np.savetxt(path, rows, fmt="%.4f")


def sparse_matrix(path: Path) -> None:
    """Matrix Market, a pattern of 4096 x 4096 with about 5 entries a row."""
    pairs = np.unique(_rng("matrix").integers(1, 4097, (20000, 2)), axis=0)
    rows = [f"{a} {b}" for a, b in pairs.tolist()]
    head = ["%%MatrixMarket matrix coordinate pattern general", f"4096 4096 {len(rows)}"]
    path.write_text("\n".join([*head, *rows]) + "\n")


def classified_rows(path: Path) -> None:
    """LIBSVM: 1000 rows of 512 features, half of them present, with labels +1 and -1. (512 for gd: its last block must
    be whole, since all threads of a block that has features reduce together.)"""
    rng = _rng("svm")
    direction, lines = rng.normal(size=512), []
    for _ in range(1000):
        present = np.flatnonzero(rng.random(512) < 0.5)
        values = rng.normal(size=len(present))
        label = 1 if values @ direction[present] > 0 else -1
        lines.append(f"{label:+d} " + " ".join(f"{i + 1}:{v:.5f}" for i, v in zip(present, values, strict=True)))
    path.write_text("\n".join(lines) + "\n")


def events(path: Path) -> None:
    """gmm: a line of names, then 4096 points of 4 dimensions around 4 centres."""
    rng = _rng("events")
    points = rng.normal(size=(4096, 4)) + 12 * rng.integers(0, 4, (4096, 1))
    np.savetxt(path, points, fmt="%.5f", delimiter=",", header="a,b,c,d", comments="")


def trials(path: Path) -> None:
    """gibbs: counts and exposures of 2000 units."""
    rng = _rng("trials")
    exposure = rng.uniform(0.5, 2, 2000)
    np.savetxt(path, np.stack([rng.poisson(3 * exposure), exposure], axis=1), fmt=["%d", "%.4f"])


def lattice_size(path: Path) -> None:
    """d2q9-bgk: nx, ny, steps, Reynolds dimension, density, acceleration, relaxation."""
    path.write_text("\n".join(["128", "128", "400", "64", "0.1", "0.005", "1.85"]) + "\n")


def obstacles(path: Path) -> None:
    walls = [f"{x} {y} 1" for y in (0, 127) for x in range(128)]
    path.write_text("\n".join([*walls, *(f"{x} {y} 1" for x in range(56, 72) for y in range(56, 72))]) + "\n")


INPUTS: dict[str, dict[str, Maker]] = {
    "aes": {"../urng-sycl/URNG_Input.bmp": bitmap(512, 512)},
    "b+tree": {
        "../data/b+tree/mil.txt": rodinia_data.MAKERS["b+tree/mil.txt"],
        "../data/b+tree/command.txt": rodinia_data.MAKERS["b+tree/command.txt"],
    },
    "bm3d": {"noisy.bmp": bitmap(256, 256, 20), "clean.bmp": bitmap(256, 256)},  # PNG needs ImageMagick
    "bfs": {"../data/bfs/graph1MW_6.txt": rodinia_data.MAKERS["bfs/graph65536.txt"]},
    "cc": {"delaunay_n24.egr": ecl_graph(100_000, 6)},
    "cfd": {"../data/cfd/fvcorr.domn.097K": rodinia_data.MAKERS["cfd/box.domn.004K"]},
    "clink": {
        "input.hpp": numbers(20000, -1, 1),
        "weight_1.hpp": numbers(146, -1, 1),
        "weight_2.hpp": numbers(146, -1, 1),
    },
    "d2q9-bgk": {"Inputs/input_256x256.params": lattice_size, "Obstacles/obstacles_256x256.dat": obstacles},
    "floydwarshall2": {"CollegeMsg.egr": ecl_graph(500, 8, weights=True)},
    "gc": {"../mis-cuda/internet.egr": ecl_graph(50_000, 6)},
    "gd": {"gisette_scale": classified_rows},
    "ge-spmm": {"data/snap/amazon0302/amazon0302.mtx": sparse_matrix},
    "geodesic": {"../geodesic-sycl/locations.txt": cities},
    "gibbs": {"data.csv": trials},
    "gmm": {"data.csv": events},
    "graphB+": {"graph.csv": signed_edges},
    "haversine": {"../geodesic-cuda/locations.txt": cities},
    "hbc": {"graphs/breast_coexpress.txt": edge_list},
    "hogbom": {"data/dirty_512.img": point_sources, "data/psf_512.img": point_sources},
    "hotspot": {
        "../data/hotspot/temp_512": rodinia_data.MAKERS["hotspot/temp_512"],
        "../data/hotspot/power_512": rodinia_data.MAKERS["hotspot/power_512"],
    },
    "hotspot3D": {
        "../data/hotspot3D/power_512x8": rodinia_data.MAKERS["hotspot3D/power_512x8"],
        "../data/hotspot3D/temp_512x8": rodinia_data.MAKERS["hotspot3D/temp_512x8"],
    },
}
