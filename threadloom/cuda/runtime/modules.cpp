// Modules of the driver API. An image is a shared library that `loom-nvcc -fatbin` (or -cubin) made: machine code for this CPU,
// whose constructor registers kernels and variables like a program's; with -ptx, the same as text. It stays loaded until the
// program ends, since launches in flight may use it.
#include <cuda.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime.h"

struct CUmod_st {
  const void* base;
};
struct CUlinkState_st {
  std::string image;
};

namespace {
const char text_mark[] = "// threadloom module, base64\n";

const void* base_of(const void* address) {
  Dl_info found;
  return dladdr(address, &found) ? found.dli_fbase : nullptr;
}

// Bytes of a shared library in memory: its section headers come last.
size_t library_bytes(const void* image) {
  const Elf64_Ehdr* head = (const Elf64_Ehdr*)image;
  return head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
}
bool is_library(const void* image) { return !memcmp(image, ELFMAG, SELFMAG) && ((const Elf64_Ehdr*)image)->e_type == ET_DYN; }
bool is_text(const void* image) { return !strncmp((const char*)image, text_mark, sizeof text_mark - 1); }

std::string decoded(const char* text) {
  std::string bytes;
  unsigned group = 0, bits = 0;
  for (; *text; ++text) {
    char c = *text;
    int value = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
    if (value < 0) continue;
    group = group << 6 | (unsigned)value, bits += 6;
    if (bits >= 8) bits -= 8, bytes += (char)(group >> bits & 255);
  }
  return bytes;
}

CUresult open_library(CUmodule* module, const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "loom: cannot load the module %s: %s\n", path, dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  link_map* loaded = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &loaded)) return CUDA_ERROR_INVALID_IMAGE;
  *module = new CUmod_st{(const void*)loaded->l_addr};
  return CUDA_SUCCESS;
}

CUresult load(CUmodule* module, const char* bytes, size_t count) {
  int file = memfd_create("module", 0);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t done = 0; done < count;) {
    ssize_t written = write(file, bytes + done, count - done);
    if (written <= 0) return close(file), CUDA_ERROR_OUT_OF_MEMORY;
    done += (size_t)written;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  CUresult result = open_library(module, path.c_str());
  close(file);
  return result;
}
bool read_file(const char* path, std::string& bytes) {
  FILE* file = fopen(path, "rb");
  if (!file) return false;
  char piece[1 << 14];
  for (size_t count; (count = fread(piece, 1, sizeof piece, file)) > 0;) bytes.append(piece, count);
  return fclose(file), true;
}
}  // namespace

extern "C" {
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
  if (is_library(image)) return load(module, (const char*)image, library_bytes(image));
  if (!is_text(image)) return CUDA_ERROR_INVALID_PTX;  // code for a GPU
  std::string bytes = decoded((const char*)image + sizeof text_mark - 1);
  return load(module, bytes.data(), bytes.size());
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(module, image); }
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  std::string bytes;
  if (!read_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return bytes.size() < sizeof(Elf64_Ehdr) ? CUDA_ERROR_INVALID_IMAGE : cuModuleLoadData(module, bytes.c_str());
}
CUresult cuModuleUnload(CUmodule module) { return delete module, CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  const loom::Kernel* kernel = loom::find_kernel_by_name(name, [=](const loom::Kernel& one) { return !module || base_of(one.stub) == module->base; });
  return kernel ? (*function = (CUfunction)kernel->stub, CUDA_SUCCESS) : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule module, const char* name) {
  const loom::Variable* variable = loom::find_variable_by_name(name, [=](const loom::Variable& one) { return !module || base_of(one.address) == module->base; });
  if (!variable) return CUDA_ERROR_NOT_FOUND;
  if (p) *p = (CUdeviceptr)variable->address;
  if (bytes) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

// Linking: one image goes through as it is.
CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState* state) { return *state = new CUlinkState_st, CUDA_SUCCESS; }
CUresult cuLinkAddData(CUlinkState state, CUjitInputType, void* data, size_t bytes, const char*, unsigned, CUjit_option*, void**) {
  if (!state->image.empty()) return CUDA_ERROR_NOT_SUPPORTED;  // several images would need their device code linked
  if (!is_library(data) && !is_text(data)) return CUDA_ERROR_INVALID_PTX;
  return state->image.assign((const char*)data, bytes), CUDA_SUCCESS;
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned, CUjit_option*, void**) {
  std::string bytes;
  if (!read_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return cuLinkAddData(state, type, bytes.data(), bytes.size(), path, 0, nullptr, nullptr);
}
CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  if (state->image.empty()) return CUDA_ERROR_INVALID_VALUE;
  *image = state->image.data();
  if (bytes) *bytes = state->image.size();
  return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) { return delete state, CUDA_SUCCESS; }
}
