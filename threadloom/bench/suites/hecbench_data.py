"""Stand-ins for inputs of HeCBench's programs that its repository keeps elsewhere: same formats, our own numbers."""

from __future__ import annotations

import bz2
import heapq
import struct
import tarfile
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


def pixmap(width: int, height: int) -> Maker:
    """Binary PPM."""

    def make(path: Path) -> None:
        y, x = np.mgrid[0:height, 0:width]
        channels = [127 + 100 * np.sin(x / (9 + 5 * c)) * np.cos(y / (17 - 3 * c)) for c in range(3)]
        head = f"P6\n{width} {height}\n255\n".encode()
        path.write_bytes(head + np.stack(channels, -1).astype(np.uint8).tobytes())

    return make


def bright_image(path: Path) -> None:
    """tonemapping: width and height, then four values of each pixel, as text."""
    y, x = np.mgrid[0:64, 0:64]
    pixels = np.stack([np.exp(3 * np.sin(x / (5 + c)) * np.cos(y / 9)) for c in range(4)], -1)
    path.write_text("64 64\n" + "\n".join(f"{value:.5f}" for value in pixels.ravel()) + "\n")


def edges_of_both_ends(path: Path) -> None:
    """lanczos: each edge in both directions, a pair a line; 20000 nodes, clustered."""
    rng = _rng("lanczos")
    near = rng.integers(0, 20000, 100_000)
    pairs = np.stack([near, (near + rng.geometric(0.02, 100_000)) % 20000], axis=1)
    pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    np.savetxt(path, pairs, fmt="%d")


CENTRES = np.array([[10.0, 20.0, 30.0], [200.0, 50.0, -70.0], [-150.0, 180.0, 90.0]])


def clustered_points(path: Path) -> None:
    """meanshift: 10000 points in three clusters."""
    rng = _rng("meanshift")
    np.savetxt(path, CENTRES[np.arange(10000) % 3] + rng.normal(size=(10000, 3)), fmt="%.5f", delimiter=",")


def cluster_centres(path: Path) -> None:
    np.savetxt(path, CENTRES, fmt="%.5f", delimiter=",")


def scanner_samples(path: Path) -> None:
    """mriQ: the numbers of samples and of points, then places and phases, raw f32."""
    samples, points = 512, 4096
    rng = _rng("mri")
    arrays = [rng.uniform(-0.5, 0.5, size) for size in (samples,) * 3 + (points,) * 3 + (samples,) * 2]
    sizes = np.array([samples, points], np.int32)
    path.write_bytes(sizes.tobytes() + np.concatenate(arrays).astype(np.float32).tobytes())


def random_bytes(count: int, values: int = 256) -> Maker:
    def make(path: Path) -> None:
        path.write_bytes(_rng(path.name).integers(0, values, count).astype(np.uint8).tobytes())

    return make


def smooth_field(path: Path) -> None:
    """lzss: small whole numbers that repeat, 256 KiB."""
    y, x = np.mgrid[0:256, 0:256]
    path.write_bytes((np.round(3 * np.sin(x / 20) * np.cos(y / 15)) + 8).astype(np.uint32).tobytes())


def temperatures(path: Path) -> None:
    """lr: 96453 temperatures and apparent temperatures, a tab between."""
    rng = _rng("weather")
    heat = rng.normal(12, 9, 96453)
    np.savetxt(path, np.stack([heat, 1.1 * heat - 2 + rng.normal(0, 1, 96453)], axis=1), fmt="%.3f", delimiter="\t")


def smooth_doubles(path: Path) -> None:
    path.write_bytes(np.round(np.sin(np.arange(100_000) / 50), 4).tobytes())


def bases(count: int) -> np.ndarray:
    return np.frombuffer(b"ACGT", np.uint8)[_rng("bases").integers(0, 4, count)]


def genome(path: Path) -> None:
    path.write_bytes(bases(100_000).tobytes())


def reads_and_references(path: Path) -> None:
    """snake: 30000 pairs of 100 letters, the second with 0 to 9 letters replaced."""
    rng, letters = _rng("reads"), bases(3_000_000).reshape(30000, 100)
    changed = letters.copy()
    for row, count in enumerate(rng.integers(0, 10, 30000)):
        changed[row, rng.integers(0, 100, count)] = ord("A")
    pairs = zip(letters, changed, strict=True)
    path.write_bytes(b"".join(a.tobytes() + b"\t" + b.tobytes() + b"\n" for a, b in pairs))


def words(path: Path) -> None:
    """A hundred thousand words of a few hundred, some far more frequent."""
    names = [f"w{i:x}" for i in range(400)] + ["clEnqueueNDRangeKernel"]
    chosen = np.minimum(_rng("words").geometric(0.02, 100_000), len(names)) - 1
    path.write_text(" ".join(names[i] if i % 97 else names[-1] for i in chosen.tolist()))


def small_matrices(path: Path) -> None:
    """svd3x3: how many, then nine elements of each."""
    rows = _rng("svd").normal(size=(20000, 9))
    path.write_text("20000\n" + "\n".join(" ".join(f"{v:.6f}" for v in row) for row in rows.tolist()) + "\n")


def sky(path: Path) -> None:
    """tpacf: right ascension and declination of 500 points, degrees."""
    rng = _rng(path.name)
    height = np.degrees(np.arcsin(rng.uniform(-1, 1, 500)))
    np.savetxt(path, np.stack([rng.uniform(0, 360, 500), height], axis=1), fmt="%.6f")


def nets(path: Path) -> None:
    """rsmt: a grid of 64 x 64 tiles, then 2000 nets of 2 to 12 pins, as the ISPD 2008 contest writes them."""
    rng = _rng("nets")
    head = ["grid 64 64 2", "vertical capacity 0 80", "horizontal capacity 80 0", "minimum width 1 1"]
    head += ["minimum spacing 0 0", "via spacing 0 0", "0 0 10 10", "", "num net 2000"]
    rows = []
    for net, pins in enumerate(rng.integers(2, 13, 2000).tolist()):
        rows.append(f"n{net} {net} {pins} 1")
        rows += [f"{x} {y} 1" for x, y in rng.integers(0, 640, (pins, 2)).tolist()]
    path.write_text("\n".join([*head, *rows]) + "\n")


def _roads() -> list[list[tuple[int, int]]]:
    """Neighbours and lengths of a grid of 100 x 100 crossings."""
    rng, side = _rng("roads"), 100
    out: list[list[tuple[int, int]]] = [[] for _ in range(side * side)]
    for a in range(side * side):
        for b in ([a + 1] if a % side < side - 1 else []) + ([a + side] if a < side * (side - 1) else []):
            length = int(rng.integers(1, 100))
            out[a].append((b, length))
            out[b].append((a, length))
    return out


def roads(path: Path) -> None:
    """sssp: numbers of nodes and edges, the source, first edge and edges of each node, then ends and lengths."""
    out = _roads()
    first = np.cumsum([0] + [len(edges) for edges in out]).tolist()
    rows = [f"{first[node]} {len(edges)}" for node, edges in enumerate(out)]
    rows += [f"{end} {length}" for edges in out for end, length in edges]
    path.write_text("\n".join([f"{len(out)} {first[-1]}", "0", *rows]) + "\n")


def road_distances(path: Path) -> None:
    """sssp: what it compares with: the number of nodes, then each node and its distance from the source."""
    out = _roads()
    distance, waiting = {}, [(0, 0)]
    while waiting:
        length, node = heapq.heappop(waiting)
        if node not in distance:
            distance[node] = length
            for end, more in out[node]:
                heapq.heappush(waiting, (length + more, end))
    path.write_text("\n".join([str(len(out)), *(f"{node} {distance[node]}" for node in range(len(out)))]) + "\n")


def unpacked(archive: str) -> Maker:
    """The file of the same name that the checkout keeps in an archive beside it, or compressed."""

    def make(path: Path) -> None:
        packed = path.with_name(archive)
        if archive.endswith(".bz2"):
            path.write_bytes(bz2.decompress(packed.read_bytes()))
            return
        with tarfile.open(packed) as files:
            member = next(one for one in files.getmembers() if Path(one.name).name == path.name)
            path.write_bytes(files.extractfile(member).read())

    return make


def lidar(path: Path) -> None:
    """voxelization: points of x, y, z, intensity and time, raw f32."""
    rng = _rng("lidar")
    low, high = [-50, -50, -4, 0, 0], [50, 50, 2, 1, 0.5]
    path.write_bytes(rng.uniform(low, high, (20000, 5)).astype(np.float32).tobytes())


def neighbours(distances: bool) -> Maker:
    """tsne: 32 neighbours of each of 60000 points, nearest first: their distances (f32), or their numbers (i64)."""

    def make(path: Path) -> None:
        rng = _rng("tsne")
        if distances:
            path.write_bytes(np.sort(rng.uniform(1, 50, (60_000, 32)).astype(np.float32), axis=1).tobytes())
        else:
            path.write_bytes(rng.integers(0, 60_000, (60_000, 32)).astype(np.int64).tobytes())

    return make


INPUTS: dict[str, dict[str, Maker]] = {
    "aes": {"../urng-sycl/URNG_Input.bmp": bitmap(512, 512)},
    "b+tree": {
        "../data/b+tree/mil.txt": rodinia_data.MAKERS["b+tree/mil.txt"],
        "../data/b+tree/command.txt": rodinia_data.MAKERS["b+tree/command.txt"],
    },
    "bm3d": {"noisy.bmp": bitmap(96, 96, 20), "clean.bmp": bitmap(96, 96)},  # PNG needs ImageMagick
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
    "kmeans": {"../data/kmeans/kdd_cup": rodinia_data.kmeans_points(20_000)},
    "lanczos": {"data/social-large-800k.txt": edges_of_both_ends},
    "leukocyte": {"../data/leukocyte/testfile.avi": rodinia_data.MAKERS["leukocyte/testfile.avi"]},
    "lr": {"../lr-sycl/assets/temperature.txt": temperatures},
    "lzss": {"QCLOUDf48.bin.f32.errctrl.1e-3": smooth_field},
    "mcpr": {"alphas.csv": unpacked("alphas.csv.bz2")},
    "meanshift": {"dataset/data.csv": clustered_points, "dataset/centroids.csv": cluster_centres},
    "medianfilter": {"../medianfilter-sycl/data/SierrasRGB.ppm": pixmap(320, 200)},
    "mpc": {"doubles.bin": smooth_doubles},
    "mriQ": {"datasets/128x128x128/input/128x128x128.bin": scanner_samples},
    "nn": {f"../data/nn/cane4_{i}.db": rodinia_data.MAKERS[f"nn/cane4_{i}.db"] for i in range(4)},
    "permutate": {"test_data/truerand_1bit.bin": random_bytes(1_000_000, 2)},
    "recursiveGaussian": {"StoneRGB.ppm": pixmap(256, 256)},
    "rsmt": {"newblue7.kraftwerk70.3d.80.20.82.m8.gr": nets},
    "sa": {"genome.txt": genome},
    "sad": {"coins.bmp": bitmap(320, 240), "coin.bmp": bitmap(32, 32)},
    "snake": {"Datasets/ERR240727_1_E2_30000Pairs.txt": reads_and_references},
    "sobel": {"../sobel-sycl/SobelFilter_Input.bmp": bitmap(256, 256)},
    "sptrsv": {"../sptrsv-sycl/lp1.mtx": unpacked("lp1.mtx.tgz")},
    "ss": {"../ss-sycl/StringSearch_Input.txt": words},
    "sssp": {"input/NYR_input.dat": roads, "output/NYR_bfs.out": road_distances},
    "svd3x3": {"Dataset_1M.txt": small_matrices},
    "tonemapping": {"../tonemapping-sycl/input.hdr": bright_image},
    "tpacf": {
        "data/small/Datapnts.1": sky,
        **{f"data/small/Randompnts.{i}": sky for i in range(1, 5)},
    },
    "tsne": {
        "data/mnist_faissed/distances": neighbours(distances=True),
        "data/mnist_faissed/indices": neighbours(distances=False),
    },
    "urng": {"../urng-sycl/URNG_Input.bmp": bitmap(256, 256)},
    "voxelization": {"data/test/points.bin": lidar},
    "word2vec": {"text8": words},
}
