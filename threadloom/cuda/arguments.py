"""How Python values become the arguments of a kernel launch: by the kernel's own parameter types."""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadloom.errors import CompileError, slug

if TYPE_CHECKING:
    from threadloom.cuda.compile_unit import DeviceUnit
    from threadloom.cuda.host_stubs import Stub

BAD_ARGUMENT = slug("cuda-launch-argument", "a value given to a CUDA kernel does not fit the parameter's type")
BAD_GEOMETRY = slug("cuda-launch-geometry", "grid, block or shared memory of a CUDA launch is impossible")

MOST_SHARED_BYTES = 232448
_MOST_GRID, _MOST_BLOCK = (2**31 - 1, 65535, 65535), (1024, 1024, 64)
# C++ pointee -> names of array dtypes that may stand for it
_DTYPES = {
    "float": ("float32",), "double": ("float64",), "int": ("int32",), "unsigned int": ("uint32",), "short": ("int16",),
    "unsigned short": ("uint16",), "char": ("int8", "uint8"), "signed char": ("int8",), "bool": ("bool", "uint8"),
    "unsigned char": ("uint8", "bool"), "long": ("int64",), "unsigned long": ("uint64",), "long long": ("int64",),
    "unsigned long long": ("uint64",), "__half": ("float16",), "__nv_bfloat16": ("bfloat16",),
    "float2": ("float32", "complex64"), "float4": ("float32",), "double2": ("float64", "complex128"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One C++ parameter: kind `pointer`, `struct`, or the struct code of a number (`i` is 32 bits, `?` a bool ...)."""

    kind: str
    size_bytes: int
    text: str  # C++ type, where known


@dataclass(frozen=True, slots=True)
class Launch:
    pointers: object  # ctypes array of the arguments' addresses
    geometry: object
    arrays_are_distinct: int
    keep: tuple[object, ...] = ()


@dataclass(frozen=True)
class Signature:
    """A kernel's names and parameters, and the packing of a launch."""

    symbol: str
    entry: str
    text: str  # demangled: "scale(float*, float, int)"
    parameters: tuple[Parameter, ...]
    static_shared_bytes: int
    most_threads: int  # of a block
    _local: threading.local = field(default_factory=threading.local, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`scale`, or `scale<float>`, without result and parameters."""
        depth, end = 0, len(self.text)
        for index, char in enumerate(self.text):
            depth += (char == "<") - (char == ">")
            if char == "(" and depth == 0 and index:
                end = index
                break
        head = self.text[:end]
        return head[5:] if head.startswith("void ") else head

    @classmethod
    def of(cls, stub: Stub, unit: DeviceUnit) -> Signature:
        from threadloom.cuda.entry import ENTRY_PREFIX

        text = demangle(stub.kernel)
        types = parameter_texts(text)
        if len(types) != len(stub.argument_bytes):
            types = [""] * len(stub.argument_bytes)
        parameters = tuple(_parameter(stub, index, types[index]) for index in range(len(types)))
        shared = unit.static_shared_bytes.get(stub.kernel, 0)
        return cls(stub.kernel, ENTRY_PREFIX + stub.kernel, text, parameters, shared, stub.most_threads)

    def record(self) -> list[object]:
        parameters = [[p.kind, p.size_bytes, p.text] for p in self.parameters]
        return [self.symbol, self.entry, self.text, parameters, self.static_shared_bytes, self.most_threads]

    @classmethod
    def from_record(cls, record: list) -> Signature:
        symbol, entry, text, parameters, shared, most_threads = record
        return cls(symbol, entry, text, tuple(Parameter(*one) for one in parameters), shared, most_threads)

    # ------------------------------------------------------------ launching

    def launch(self, grid: object, block: object, args: tuple[object, ...], shared_bytes: int) -> Launch:
        if len(args) != len(self.parameters):
            raise CompileError(BAD_ARGUMENT, f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}",
                               why=f"its declaration is {self.text}")  # fmt: skip
        room = self._room()
        fixed = isinstance(grid, int | tuple) and isinstance(block, int | tuple)  # a list may change
        if not fixed or (grid, block, shared_bytes) != room.launched:
            room.geometry[:] = self._geometry(grid, block, shared_bytes)
            room.launched = (grid, block, shared_bytes) if fixed else None
        ranges: list[tuple[int, int, bool]] = []
        values = [self._value(index, arg, ranges) for index, arg in enumerate(args)]
        try:
            room.layout.pack_into(room.memory, 0, *values)
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            raise CompileError(BAD_ARGUMENT, f"an argument of {self.name} does not fit: {error}",
                               why=f"its declaration is {self.text}") from None  # fmt: skip
        return Launch(room.pointers, room.geometry, _distinct(ranges), args)

    def described(self, launch: Launch) -> tuple[str, ...]:
        """Block extents and integer arguments, as host_launches.with_first_launches takes them."""
        values = [""] * len(self.parameters)
        for index, parameter in enumerate(self.parameters):
            if parameter.kind in "BHIQ":
                values[index] = ctypes.string_at(launch.pointers[index], parameter.size_bytes).hex()
        return (*map(str, launch.geometry[3:6]), *values)

    def _room(self) -> _Room:
        """Memory for one launch, kept per thread."""
        room = getattr(self._local, "room", None)
        if room is None:
            self._local.room = room = _Room(self.parameters)
        return room

    def _geometry(self, grid: object, block: object, shared_bytes: int) -> list[int]:
        sizes = [*_three(grid, _MOST_GRID, "grid"), *_three(block, _MOST_BLOCK, "block")]
        threads = sizes[3] * sizes[4] * sizes[5]
        if threads > self.most_threads:
            raise CompileError(BAD_GEOMETRY, f"a block of {threads} threads",
                               why=f"a block of {self.name} has at most {self.most_threads}")  # fmt: skip
        if not 0 <= shared_bytes <= MOST_SHARED_BYTES - self.static_shared_bytes:
            raise CompileError(BAD_GEOMETRY, f"{shared_bytes} bytes of shared memory",
                               why=f"a block has at most {MOST_SHARED_BYTES}")  # fmt: skip
        return [*sizes, shared_bytes]

    def _value(self, index: int, arg: object, ranges: list[tuple[int, int, bool]]) -> object:
        parameter = self.parameters[index]
        if parameter.kind == "pointer":
            return self._pointer(index, arg, ranges)
        if parameter.kind == "struct":
            data = _bytes_of(arg)
            if data is None or len(data) != parameter.size_bytes:
                raise self._misfit(
                    index, arg, f"{parameter.size_bytes} bytes: a ctypes structure, a NumPy record, bytes"
                )
            return data
        number = arg.item() if hasattr(arg, "item") else arg
        if parameter.kind == "?":
            return number
        bits = 8 * parameter.size_bytes
        try:
            if parameter.kind in "fde":
                return float(number)
            whole = operator.index(number)
        except (TypeError, ValueError, OverflowError):
            raise self._misfit(index, arg, "a number" if parameter.kind in "fde" else "an integer") from None
        if not -(1 << bits - 1) <= whole < 1 << bits:
            raise self._misfit(index, arg, f"an integer of {bits} bits, not {whole}")
        return whole & ((1 << bits) - 1)

    def _pointer(self, index: int, arg: object, ranges: list[tuple[int, int, bool]]) -> int:
        if arg is None or isinstance(arg, int):
            if arg:
                ranges.append((0, 0, True))  # unknown extent: nothing can be said about overlap
            return arg or 0
        place = _array_of(arg)
        if place is None:
            raise self._misfit(index, arg, "an array in this machine's memory, an address or None")
        address, size, dtype, contiguous, read_only = place
        if not contiguous:
            raise self._misfit(index, arg, "a contiguous array (numpy.ascontiguousarray)")
        dtypes, written = self._room().accepted[index]
        if read_only and written and self.parameters[index].text:  # extern "C" names tell no types
            raise self._misfit(index, arg, "an array that may be written, or a parameter `const T *`")
        if dtypes and dtype not in dtypes:
            raise self._misfit(index, arg, f"an array of {' or '.join(dtypes)}, not of {dtype}")
        ranges.append((address, address + size, written))
        return address

    def _misfit(self, index: int, arg: object, wanted: str) -> CompileError:
        parameter = self.parameters[index]
        return CompileError(BAD_ARGUMENT, f"argument {index + 1} of {self.name} is {type(arg).__name__}",
                            why=f"the parameter is {parameter.text or parameter.kind}", try_=wanted)  # fmt: skip


class _Room:
    """The arguments' memory, the array of their addresses and the launch geometry of one thread's launches."""

    def __init__(self, parameters: tuple[Parameter, ...]):
        codes, offsets, position = [], [], 0
        for parameter in parameters:
            padding = -position % min(16, max(1, parameter.size_bytes))
            codes.append(f"{padding}x" if padding else "")
            position += padding
            offsets.append(position)
            codes.append(_struct_code(parameter))
            position += parameter.size_bytes
        self.layout = struct.Struct("<" + "".join(codes))
        self.memory = ctypes.create_string_buffer(position + 16)
        base = ctypes.addressof(self.memory)
        self.pointers = (ctypes.c_void_p * max(1, len(parameters)))(*(base + offset for offset in offsets))
        self.geometry = (ctypes.c_uint32 * 7)()
        self.launched: tuple[object, object, int] | None = None  # what `geometry` holds
        self.accepted = [_accepted(parameter.text) for parameter in parameters]


def _accepted(text: str) -> tuple[tuple[str, ...], bool]:
    """The dtypes that may stand for a pointer of this C++ type, none where any may, and whether it may be written."""
    pointee = text.removesuffix("const").rstrip("& ").removesuffix("*").rstrip()
    name = pointee.removesuffix("const").removeprefix("const ").strip()
    dtypes = ("uint64", "int64") if name.endswith("*") else _DTYPES.get(name, ())
    return dtypes, not pointee.endswith("const")


def _struct_code(parameter: Parameter) -> str:
    if parameter.kind == "pointer":
        return "Q"
    return f"{parameter.size_bytes}s" if parameter.kind == "struct" else parameter.kind


def _parameter(stub: Stub, index: int, text: str) -> Parameter:
    from threadloom.par.ops import Float, Int, Ptr

    size = stub.argument_bytes[index]
    pieces = [p for p in stub.params if p.argument == index]
    if len(pieces) == 1 and not pieces[0].by_pointer and pieces[0].offset_bytes == 0:
        match pieces[0].stored:
            case Ptr():
                return Parameter("pointer", size, text)
            case Int(8) if text in ("bool", ""):
                return Parameter("?" if text == "bool" else "B", size, text)
            case Int(bits) if bits == 8 * size and bits in (8, 16, 32, 64) and _is_number(text):
                return Parameter({8: "B", 16: "H", 32: "I", 64: "Q"}[bits], size, text)
            case Float(kind) if kind in ("half", "float", "double") and _is_number(text):
                return Parameter({"half": "e", "float": "f", "double": "d"}[kind], size, text)
    return Parameter("struct", size, text)


def _is_number(text: str) -> bool:
    words = {
        "unsigned",
        "signed",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "bool",
        "__half",
        "_Float16",
        "const",
    }
    return not text or set(text.replace("*", " ").split()) <= words


def _three(value: object, most: tuple[int, int, int], what: str) -> list[int]:
    sizes = [value] if isinstance(value, int) or hasattr(value, "__index__") else list(value)
    sizes = [int(size) for size in sizes] + [1] * (3 - len(sizes))
    if len(sizes) != 3 or any(not 1 <= size <= limit for size, limit in zip(sizes, most, strict=False)):
        raise CompileError(BAD_GEOMETRY, f"{what} {value!r}", why=f"it has up to three sizes, each from 1 to {most}")
    return sizes


def _array_of(arg: object) -> tuple[int, int, str, bool, bool] | None:
    """Address, bytes, dtype name, whether contiguous and whether read-only, of a NumPy array or a torch CPU tensor."""
    if (interface := getattr(arg, "__array_interface__", None)) is not None and hasattr(arg, "dtype"):
        flags = getattr(arg, "flags", None)
        contiguous = flags is None or bool(flags.c_contiguous or flags.f_contiguous)
        address, read_only = interface["data"]
        return address, arg.nbytes, _dtype_name(arg.dtype), contiguous, read_only
    if hasattr(arg, "data_ptr") and getattr(getattr(arg, "device", None), "type", "") == "cpu":
        size = arg.numel() * arg.element_size()
        return arg.data_ptr(), size, _dtype_name(arg.dtype), arg.is_contiguous(), False
    return None


_dtype_names: dict[object, str] = {}


def _dtype_name(dtype: object) -> str:
    """`float32` for NumPy's and torch's; making the text costs more than the rest of a launch, so it is kept."""
    name = _dtype_names.get(dtype)
    if name is None:
        name = _dtype_names[dtype] = str(dtype).removeprefix("torch.")
    return name


def _bytes_of(arg: object) -> bytes | None:
    if hasattr(arg, "tobytes"):
        return arg.tobytes()
    try:
        return bytes(arg) if isinstance(arg, bytes | bytearray | memoryview | ctypes.Structure | ctypes.Array) else None
    except TypeError:
        return None


def _distinct(ranges: list[tuple[int, int, bool]]) -> int:
    """Whether no array that may be written overlaps another."""
    for index, (start, end, written) in enumerate(ranges):
        if start == end:
            return 0
        for other_start, other_end, other_written in ranges[index + 1 :]:
            if (written or other_written) and start < other_end and other_start < end:
                return 0
    return 1


# ---------------------------------------------------------------- C++ names


def demangle(symbol: str) -> str:
    """`_Z5scalePffi` -> `scale(float*, float, int)`, by the C++ library. Others stay (`f` is a name, and float)."""
    if not symbol.startswith("_Z"):
        return symbol
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            function = ctypes.CDLL(name).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        found = function(symbol.encode(), None, None, None)
        return ctypes.cast(found, ctypes.c_char_p).value.decode() if found else symbol
    return symbol


def parameter_texts(text: str) -> list[str]:
    """The parameter types of a demangled declaration."""
    start, depth = -1, 0
    for index, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "(" and depth == 0 and index:
            start = index
            break
    if start < 0 or not text.endswith(")"):
        return []
    parts, depth, current = [], 0, ""
    for char in text[start + 1 : -1]:
        depth += (char in "<([") - (char in ">)]")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip() and current.strip() != "void":
        parts.append(current.strip())
    return parts
