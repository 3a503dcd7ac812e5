"""Rodinia's CUDA programs, each held against its OpenMP twin, against NumPy, or against its own check.

They are built by their Makefiles, with `CUDA_DIR` our CUDA root; where output is an option of the source, it is on.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from threadloom.bench.suites import rodinia_checks as checks
from threadloom.bench.suites import rodinia_data
from threadloom.bench.suites.driver import environment
from threadloom.bench.suites.process import Limits, Outcome, run
from threadloom.bench.suites.program import BUILD, CRASH, PASS, WRONG, Program, judge_bad, judge_by_output

ABOUT = (
    "All CUDA programs of Rodinia, unmodified, built by their Makefiles under `--no-fibers`. Inputs that the "
    "repository lacks are generated (`threadloom/bench/suites/rodinia_data.py`: same formats, our numbers). "
    "`twin` is the OpenMP version of the same program, built by gcc. Build times are CPU seconds, run times are "
    "of a shared machine, no measurement. srad_v1 runs with 512 x 512 pixels: with the usual 502 x 458 the second "
    "pass of its own `reduce` kernel adds elements that are no partial sums, on a GPU too. heartwall's twin looks "
    "for the largest correlation, the CUDA program for the largest absolute one; the twin's copy does so, too. "
    "mummergpu is built by its option `dbg=1`, since some of its host functions return without a value, which "
    "newer compilers punish when they optimise, and with `unistd.h`."
)
_HOME = (  # no kernel of these programs may need a stack of its own
    "H=$(loom cuda-home) && export PATH=$H/bin:$PATH LIBRARY_PATH=$H/lib64 LD_LIBRARY_PATH=$H/lib64 "
    "NVCC_APPEND_FLAGS=--no-fibers && "
)
_MAKE = _HOME + "make CUDA_DIR=$H CUDA_LIB_DIR=$H/lib64 "
# Programs that seed their random numbers by the time get the same time on both sides.
_CLOCK = "LD_PRELOAD=../../clock.so "
_CLOCK_SOURCE = "#include <time.h>\ntime_t time(time_t* p) { if (p) *p = 12345; return 12345; }\n"
_TWIN_LIMITS = Limits(cpu_s=120)


@dataclass(frozen=True, slots=True)
class Twin:
    """The OpenMP version: its folder, commands, and how its results are compared with ours."""

    folder: str
    build: str
    run: str
    compare: checks.Compare
    mended: tuple[tuple[str, str, str], ...] = ()  # file, text, what replaces it in the twin's copy


def programs(checkout: Path) -> list[Program]:
    return [_program(checkout, name, *entry) for name, entry in _TABLE.items()]


def _program(
    checkout: Path,
    name: str,
    folder: str,
    build: str,
    command: str,
    inputs: tuple[str, ...] = (),
    check: Twin | checks.Check | None = None,
) -> Program:
    def prepare(place: Path) -> None:
        tree = place.parents[len(Path(folder).parts) - 1]
        shared = tree.parent / "data"
        rodinia_data.provide(shared, checkout / "data", inputs)
        data = tree / "data"
        if data.is_symlink():
            data.unlink()
        if not data.exists():
            data.symlink_to(shared)
        _support(tree)

    def judge(place: Path, outcomes: list[Outcome]) -> tuple[str, str]:
        match check:
            case Twin():
                return _against_twin(check, checkout, place, folder, outcomes)
            case None:
                return judge_by_output(place, outcomes)
        if not outcomes[-1].good:
            return judge_bad(outcomes[-1])
        wrong = check(place, outcomes[-1].output)
        return (WRONG, wrong) if wrong else (PASS, check.__doc__ or "")

    return Program(name, folder, (build,), (_HOME + command,), judge, prepare, setup=_HOME)


def _support(tree: Path) -> None:
    """What stands beside the programs: the clock, and where the system has no GLEW an empty header: none is used."""
    if not (tree / "clock.so").exists():
        (tree / "clock.c").write_text(_CLOCK_SOURCE)
        run(["gcc", "-shared", "-fPIC", "clock.c", "-o", "clock.so"], tree, _TWIN_LIMITS)
    header = tree / "headers" / "GL" / "glew.h"
    if not Path("/usr/include/GL/glew.h").exists() and not header.exists():
        header.parent.mkdir(parents=True)
        header.write_text("")


def _against_twin(twin: Twin, checkout: Path, place: Path, folder: str, outcomes: list[Outcome]) -> tuple[str, str]:
    """Build and run the twin beside the copy, so that both see the same inputs by the same relative paths."""
    if not outcomes[-1].good:
        return judge_bad(outcomes[-1])
    there = place.parents[len(Path(folder).parts) - 1] / "twin" / twin.folder
    if not there.exists():
        shutil.copytree(checkout / "openmp" / twin.folder, there)
        for file, old, new in twin.mended:
            text = (there / file).read_text()
            (there / file).write_text(text.replace(old, new))
    threads = {**environment(), "OMP_NUM_THREADS": "2"}
    built = run(["sh", "-c", twin.build], there, _TWIN_LIMITS, threads)
    if not built.good:
        return BUILD, "the OpenMP twin does not build: " + built.output.strip()[-150:]
    ran = run(["sh", "-c", twin.run], there, _TWIN_LIMITS, threads)
    if not ran.good:
        return CRASH, "the OpenMP twin fails: " + judge_bad(ran)[1]
    wrong = twin.compare(checks.Side(place, outcomes[-1].output), checks.Side(there, ran.output))
    return (WRONG, wrong) if wrong else (PASS, "equal to the OpenMP twin's results")


_TABLE: dict[str, tuple] = {
    "backprop": ("cuda/backprop", _MAKE, "./backprop 65536", (), checks.backprop_kernels),
    "bfs": (
        "cuda/bfs",
        _MAKE,
        "./bfs.out ../../data/bfs/graph65536.txt",
        ("bfs/graph65536.txt",),
        Twin("bfs", "make bfs", "./bfs 2 ../../data/bfs/graph65536.txt", checks.same_file("result.txt")),
    ),
    "b+tree": (
        "cuda/b+tree",
        _MAKE,
        "./b+tree.out file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt",
        ("b+tree/mil.txt", "b+tree/command.txt"),
        Twin(
            "b+tree",
            "make",
            "./b+tree.out core 2 file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt",
            checks.same_file("output.txt"),
        ),
    ),
    "cfd": (
        "cuda/cfd",
        _HOME + "CPATH=../hybridsort make euler3d CUDA_DIR=$H",
        "./euler3d ../../data/cfd/box.domn.004K",
        ("cfd/box.domn.004K",),
        Twin(
            "cfd",
            "make euler3d_cpu OMP_NUM_THREADS=2",
            "./euler3d_cpu ../../data/cfd/box.domn.004K",
            checks.close_files(("density", "momentum", "density_energy"), 2e-3, skip_lines=1),
        ),
    ),
    # It allocates a byte too few for its file's name: a name of 24 letters ends in the heap's own data.
    "dwt2d": (
        "cuda/dwt2d",
        _MAKE,
        "./dwt2d ./../../data/dwt2d/rgb.bmp -d 1024x1024 -f -5 -l 3 && cp ../../data/dwt2d/rgb.bmp.dwt.r .",
        ("dwt2d/rgb.bmp",),
        checks.wavelet,
    ),
    "gaussian": ("cuda/gaussian", _MAKE, "./gaussian -s 256", (), checks.gaussian_kernels),
    "heartwall": (
        "cuda/heartwall",
        _HOME + "make OUTPUT=Y",
        "./heartwall ../../data/heartwall/test.avi 5",
        ("heartwall/test.avi",),
        Twin(
            "heartwall",
            "make OUTPUT=Y",
            "./heartwall ../../data/heartwall/test.avi 5 2",
            checks.close_files(("result.txt",), 0, 1.01),
            (("kernel.c", "private.d_mask_conv[i]", "fabs(private.d_mask_conv[i])"),),
        ),
    ),
    "hotspot": (
        "cuda/hotspot",
        _MAKE,
        "./hotspot 512 2 20 ../../data/hotspot/temp_512 ../../data/hotspot/power_512 output.out",
        ("hotspot/temp_512", "hotspot/power_512"),
        checks.hotspot,
    ),
    "hotspot3D": (
        "cuda/hotspot3D",
        _HOME + "loom-nvcc -g -G 3D.cu -o 3D",
        "./3D 512 8 20 ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 output.out",
        ("hotspot3D/temp_512x8", "hotspot3D/power_512x8"),
        checks.stated_accuracy,
    ),
    "huffman": (
        "cuda/huffman",
        _HOME + "make TESTING=Y",
        "./pavle ../../data/huffman/test1024_H2.206587175259.in",
        ("huffman/test1024_H2.206587175259.in",),
        checks.vectors_match,
    ),
    "hybridsort": ("cuda/hybridsort", _HOME + "CPATH=../../headers make VERIFY=Y CUDA_DIR=$H", "./hybridsort r"),
    "kmeans": (
        "cuda/kmeans",
        _MAKE,
        "./kmeans -o -i ../../data/kmeans/kdd_cup",
        ("kmeans/kdd_cup",),
        checks.cluster_centres,
    ),
    "lavaMD": (
        "cuda/lavaMD",
        _MAKE + "OUTPUT=Y",
        _CLOCK + "./lavaMD -boxes1d 6",
        (),
        Twin(
            "lavaMD",
            "make OUTPUT=Y",
            _CLOCK + "./lavaMD -cores 2 -boxes1d 6",
            checks.close_files(("result.txt",), 1e-4, 2e-6),
        ),
    ),
    "leukocyte": (
        "cuda/leukocyte",
        _HOME + "cd CUDA && make CUDA_DIR=$H CUDA_LIB_DIR=$H/lib64 OUTPUT=Y",
        "./CUDA/leukocyte ../../data/leukocyte/testfile.avi 2",
        ("leukocyte/testfile.avi",),
        Twin(
            "leukocyte",
            "cd OpenMP && make OUTPUT=Y CC='gcc -no-pie -fno-pie'",
            "./OpenMP/leukocyte 2 2 ../../data/leukocyte/testfile.avi",
            checks.close_output("Cells detected", 0, 0),
        ),
    ),
    "lud": (
        "cuda/lud",
        _HOME + "cd cuda && make CUDA_DIR=$H CUDA_LIB_DIR=$H/lib64",
        "./cuda/lud_cuda -s 256 -v",
        (),
        checks.no_mismatch,
    ),
    "mummergpu": (
        "cuda/mummergpu",
        _HOME + "cd src && make dbg=1 CXX='g++ -fopenmp -include unistd.h' CUDA_DIR=$H CUDA_LIB_DIR=$H/lib64",
        "./bin/mummergpu ../../data/mummergpu/NC_003997.fna ../../data/mummergpu/NC_003997_q100bp.fna > out.txt",
        ("mummergpu/NC_003997.fna", "mummergpu/NC_003997_q100bp.fna"),
        checks.maximal_matches,
    ),
    "myocyte": (
        "cuda/myocyte",
        _HOME + "make",
        "./myocyte.out 100 1 0",
        ("myocyte/y.txt", "myocyte/params.txt"),
        checks.finite_states,
    ),
    "nn": (
        "cuda/nn",
        _MAKE + "nn",
        "./nn filelist_4 -r 5 -lat 30 -lng 90",
        tuple(f"nn/cane4_{i}.db" for i in range(4)),
        checks.nearest,
    ),
    "nw": (
        "cuda/nw",
        _MAKE + "KERNEL_DIM=-DTRACEBACK",
        "./needle 1024 10",
        (),
        Twin("nw", "make needle", "./needle 1024 10 2", checks.same_last_line("result.txt")),
    ),
    "particlefilter_naive": (
        "cuda/particlefilter",
        _MAKE + "naive",
        _CLOCK + "./particlefilter_naive -x 128 -y 128 -z 10 -np 1000",
        (),
        Twin(
            "particlefilter",
            "make openmp",
            _CLOCK + "./particle_filter -x 128 -y 128 -z 10 -np 1000",
            checks.same_track,
        ),
    ),
    "particlefilter_float": (
        "cuda/particlefilter",
        _MAKE + "float",
        _CLOCK + "./particlefilter_float -x 128 -y 128 -z 10 -np 1000",
        (),
        Twin(
            "particlefilter",
            "make openmp",
            _CLOCK + "./particle_filter -x 128 -y 128 -z 10 -np 1000",
            checks.same_track,
        ),
    ),
    "pathfinder": (
        "cuda/pathfinder",
        _HOME + "make CC='loom-nvcc -DBENCH_PRINT'",
        "./pathfinder 10000 100 20",
        (),
        Twin("pathfinder", "make", "./pathfinder 10000 100", checks.same_last_numbers),
    ),
    "srad_v1": (
        "cuda/srad/srad_v1",
        _MAKE,
        "./srad 20 0.5 512 512",
        ("srad/image.pgm",),
        Twin("srad/srad_v1", "make", "./srad 20 0.5 512 512 2", checks.close_files(("image_out.pgm",), 0, 1.01)),
    ),
    "srad_v2": (
        "cuda/srad/srad_v2",
        _MAKE + "KERNEL_DIM=-DOUTPUT",
        "./srad 256 256 0 127 0 127 0.5 2",
        (),
        Twin(
            "srad/srad_v2",
            "g++ -fopenmp -O2 -DOUTPUT srad.cpp -o srad",
            "./srad 256 256 0 127 0 127 2 0.5 2",
            checks.close_long_lines(1e-3, 2e-4),
        ),
    ),
    "streamcluster": (
        "cuda/streamcluster",
        _MAKE,
        "./sc_gpu 10 20 64 8192 8192 1000 none output.txt 1",
        (),
        Twin(
            "streamcluster",
            "make omp",
            "./sc_omp 10 20 64 8192 8192 1000 none output.txt 1",
            checks.close_files(("output.txt",), 1e-3),
        ),
    ),
}
