"""The 16 pairs of Rodinia that are timed: one pinned problem for the CUDA program and its OpenMP twin.

Both sides are compiled from the sources that their Makefiles name, at -O3. {CC} and {CXX} are the twin's compiler.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    cuda: str  # folder under cuda/
    build: str
    run: str
    openmp: str  # folder under openmp/
    twin_build: str
    twin_run: str  # with {threads}
    inputs: tuple[str, ...] = ()
    same_each_run: bool = True  # False: its data come from the time of day, so that results of two runs differ


_C = "{CC} -O3 -fopenmp -std=gnu89 -w "
_CXX = "{CXX} -O3 -fopenmp -w "
_NVCC = "loom-nvcc -O3 "

PAIRS = (
    Pair(
        "backprop",
        "backprop",
        _NVCC + "*.c backprop_cuda.cu -o program",
        "./program 262144",
        "backprop",
        _C + "*.c -lm -o program",
        "./program 262144",
    ),
    Pair(
        "bfs",
        "bfs",
        _NVCC + "-I../util bfs.cu -o program",
        "./program ../../data/bfs/graph1MW_6.txt",
        "bfs",
        _CXX + "bfs.cpp -o program",
        "./program {threads} ../../data/bfs/graph1MW_6.txt",
        ("bfs/graph1MW_6.txt",),
    ),
    Pair(
        "b+tree",
        "b+tree",
        _NVCC + "main.c kernel/*wrapper*.cu util/*/*.c util/cuda/cuda.cu -o program",
        "./program file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt",
        "b+tree",
        _C + "main.c kernel/*.c util/*/*.c -lm -o program",
        "./program core {threads} file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt",
        ("b+tree/mil.txt", "b+tree/command.txt"),
    ),
    Pair(
        "cfd",
        "cfd",
        _NVCC + "-I../hybridsort euler3d.cu -o program",
        "./program ../../data/cfd/box.domn.004K",
        "cfd",
        _CXX + "-Dblock_length=2 euler3d_cpu.cpp -o program",
        "./program ../../data/cfd/box.domn.004K",
        ("cfd/box.domn.004K",),
    ),
    Pair(
        "hotspot",
        "hotspot",
        _NVCC + "hotspot.cu -o program",
        "./program 1024 2 100 ../../data/hotspot/temp_1024 ../../data/hotspot/power_1024 output.out",
        "hotspot",
        _CXX + "hotspot_openmp.cpp -o program",
        "./program 1024 1024 100 {threads} ../../data/hotspot/temp_1024 ../../data/hotspot/power_1024 output.out",
        ("hotspot/temp_1024", "hotspot/power_1024"),
    ),
    Pair(
        "hotspot3D",
        "hotspot3D",
        _NVCC + "3D.cu -o program",
        "./program 512 8 100 ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 output.out",
        "hotspot3D",
        _C + "3D.c -lm -o program",
        "./program 512 8 100 ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 output.out",
        ("hotspot3D/power_512x8", "hotspot3D/temp_512x8"),
    ),
    Pair(
        "lud",
        "lud/cuda",
        _NVCC + "-I../common lud.cu lud_kernel.cu ../common/common.c -o program",
        "./program -s 1024",
        "lud/omp",
        _C + "-I../common lud.c lud_omp.c ../common/common.c -lm -o program",
        "./program -n {threads} -s 1024",
    ),
    Pair(
        "myocyte",
        "myocyte",
        _NVCC + "main.cu -o program",
        "./program 100 64 1",
        "myocyte",
        _C + "main.c -lm -o program",
        "./program 100 64 1 {threads}",  # with mode 0 it reads its thread number before it is set
        ("myocyte/y.txt", "myocyte/params.txt"),
    ),
    Pair(
        "nw",
        "nw",
        _NVCC + "needle.cu -o program",
        "./program 2048 10",
        "nw",
        _CXX + "needle.cpp -o program",
        "./program 2048 10 {threads}",
    ),
    Pair(
        "particlefilter",
        "particlefilter",
        _NVCC + "-use_fast_math ex_particle_CUDA_float_seq.cu -o program",
        "./program -x 128 -y 128 -z 10 -np 10000",
        "particlefilter",
        _C + "-ffast-math ex_particle_OPENMP_seq.c -lm -o program",
        "./program -x 128 -y 128 -z 10 -np 10000",
        same_each_run=False,
    ),
    Pair(
        "pathfinder",
        "pathfinder",
        _NVCC + "pathfinder.cu -o program",
        "./program 100000 100 20",
        "pathfinder",
        _CXX + "pathfinder.cpp -o program",
        "./program 100000 100 > out.txt",
    ),
    Pair(
        "srad_v1",
        "srad/srad_v1",
        _NVCC + "main.cu -o program",
        "./program 100 0.5 502 458",
        "srad/srad_v1",
        _C + "main.c -lm -o program",
        "./program 100 0.5 502 458 {threads}",
        ("srad/image.pgm",),
    ),
    Pair(
        "srad_v2",
        "srad/srad_v2",
        _NVCC + "srad.cu -o program",
        "./program 2048 2048 0 127 0 127 0.5 2",
        "srad/srad_v2",
        _CXX + "srad.cpp -o program",
        "./program 2048 2048 0 127 0 127 {threads} 0.5 2",
    ),
    Pair(
        "streamcluster",
        "streamcluster",
        _NVCC + "streamcluster_cuda_cpu.cpp streamcluster_cuda.cu streamcluster_header.cu -o program",
        "./program 10 20 256 8192 8192 1000 none output.txt 1",
        "streamcluster",
        _CXX + "streamcluster_omp.cpp -o program",
        "./program 10 20 256 8192 8192 1000 none output.txt {threads}",
    ),
    Pair(
        "lavaMD",
        "lavaMD",
        _NVCC + "main.c kernel/*wrapper.cu util/num/*.c util/timer/*.c util/device/*.cu -o program",
        "./program -boxes1d 8",
        "lavaMD",
        _C + "main.c kernel/*.c util/num/*.c util/timer/*.c -lm -o program",
        "./program -cores {threads} -boxes1d 8",
        same_each_run=False,
    ),
    Pair(
        "kmeans",
        "kmeans",
        _NVCC + "-Xcompiler -fopenmp cluster.c getopt.c kmeans.c kmeans_clustering.c rmse.c kmeans_cuda.cu -o program",
        "./program -i ../../data/kmeans/kdd_cup",
        "kmeans/kmeans_openmp",
        _C + "cluster.c getopt.c kmeans.c kmeans_clustering.c -lm -o program",
        "./program -n {threads} -i ../../../data/kmeans/kdd_cup",
        ("kmeans/kdd_cup",),
    ),
)
