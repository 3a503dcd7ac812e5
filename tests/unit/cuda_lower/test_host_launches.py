"""Block sizes and arguments that the host code fixes are read off its IR; what differs between launches is not."""

from __future__ import annotations

from threadloom.cuda.host_launches import launch_facts
from threadloom.cuda.host_stubs import ParamSource, Stub
from threadloom.par.ops import F32, I32, PTR

STUB = Stub(
    "_Z16__device_stub__kPfif",
    "_Z1kPfif",
    (ParamSource(0, 0, PTR), ParamSource(1, 0, I32), ParamSource(2, 0, F32)),
    (8, 4, 4),
)
HEAD = """
target triple = "x86_64-unknown-linux-gnu"
%struct.dim3 = type { i32, i32, i32 }
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
define void @_Z16__device_stub__kPfif(ptr %x, i32 %n, float %f) {
  ret void
}
define linkonce_odr void @_ZN4dim3C2Ejjj(ptr %this, i32 %x, i32 %y, i32 %z) {
  store i32 %x, ptr %this
  %py = getelementptr %struct.dim3, ptr %this, i32 0, i32 1
  store i32 %y, ptr %py
  %pz = getelementptr %struct.dim3, ptr %this, i32 0, i32 2
  store i32 %z, ptr %pz
  ret void
}
"""


def _launch(name: str, x: str, y: str, n: str, f: str) -> str:
    return f"""
define void @{name}(ptr %data, i32 %m) {{
  %block = alloca %struct.dim3
  call void @_ZN4dim3C2Ejjj(ptr %block, i32 {x}, i32 {y}, i32 1)
  %xy = load i64, ptr %block
  %pz = getelementptr %struct.dim3, ptr %block, i32 0, i32 2
  %z = load i32, ptr %pz
  %bad = call i32 @__cudaPushCallConfiguration(i64 7, i32 1, i64 %xy, i32 %z, i64 0, ptr null)
  %go = icmp eq i32 %bad, 0
  br i1 %go, label %launch, label %end
launch:
  call void @_Z16__device_stub__kPfif(ptr %data, i32 noundef {n}, float noundef {f})
  br label %end
end:
  ret void
}}
"""


def test_constants_are_found() -> None:
    found = launch_facts(HEAD + _launch("main", "16", "8", "4", "5.000000e-01"), (STUB,))
    assert found == {
        "_Z1kPfif": {"block.x": "16", "block.y": "8", "block.z": "1", "1": "4", "2": "5.000000e-01"},
    }


def test_what_differs_between_launches_is_no_fact() -> None:
    text = HEAD + _launch("a", "16", "8", "4", "5.000000e-01") + _launch("b", "16", "8", "5", "2.000000e+00")
    assert launch_facts(text, (STUB,)) == {"_Z1kPfif": {"block.x": "16", "block.y": "8", "block.z": "1"}}


def test_a_block_that_is_computed_is_no_fact() -> None:
    assert launch_facts(HEAD + _launch("main", "%m", "8", "%m", "0.0"), (STUB,)) == {
        "_Z1kPfif": {"block.z": "1", "2": "0.000000e+00"}
    }


def test_constants_reach_functions_that_are_called_with_them() -> None:
    called = _launch("helper", "32", "1", "%m", "0.0")
    main = "\ndefine i32 @main(ptr %p) {\n  call void @helper(ptr %p, i32 12)\n  ret i32 0\n}\n"
    assert launch_facts(HEAD + called + main, (STUB,))["_Z1kPfif"]["1"] == "12"


def test_a_file_without_launches_says_nothing() -> None:
    assert launch_facts(HEAD.replace("declare i32 @__cuda", "; "), (STUB,)) == {}
