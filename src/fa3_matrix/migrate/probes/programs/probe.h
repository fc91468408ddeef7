// What the probes share: the record that each prints, errors that end one, and the driver's functions by name.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

// The symbol that a name of the driver's API stands for: cuCtxCreate is a macro for cuCtxCreate_v2 or _v4.
#define PROBE_TEXT_OF(...) #__VA_ARGS__
#define PROBE_TEXT(...) PROBE_TEXT_OF(__VA_ARGS__)
// A function of the driver as this toolkit's source code reaches it. Not linked: there may be no driver.
#define DRIVER(name) reinterpret_cast<decltype(&name)>(probe::symbol(PROBE_TEXT(name)))

namespace probe {

// Ends the probe: it could not ask its question.
[[noreturn]] inline void cannot_run(const std::string& reason) {
  std::printf("{\"reason\": \"%s\"}\n", reason.c_str());
  std::exit(0);
}

inline void* symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) cannot_run("no driver: libcuda.so.1 cannot be loaded");
  void* const found = dlsym(driver, name);
  if (found == nullptr) cannot_run(std::string("the driver has no ") + name);
  return found;
}

inline std::string name_of(cudaError_t error) {
  return cudaGetErrorName(error);
}

inline std::string name_of(CUresult result) {
  const char* name = nullptr;
  DRIVER(cuGetErrorName)(result, &name);
  return name != nullptr ? name : std::to_string(result);
}

// Of a call that the question needs, and that is not the question.
inline void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cannot_run(std::string(call) + " returned " + name_of(error));
}

inline void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) cannot_run(std::string(call) + " returned " + name_of(result));
}

#define REQUIRE(call) probe::require(call, #call)

// Ends the probe where there is no GPU; else makes the first one's primary context current.
inline void require_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) cannot_run("no device: cudaGetDeviceCount returned " + name_of(error));
  if (count == 0) cannot_run("no device: cudaGetDeviceCount counts 0");
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaFree(nullptr));
}

// Milliseconds that a call takes on the host.
template <class Call>
double milliseconds(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What a probe found, as one line of JSON. Texts are the probes' own: nothing in them needs escaping.
class Record {
 public:
  void observe(const std::string& item, const std::string& answer) { add(observed_, item, "\"" + answer + "\""); }

  void measure(const std::string& item_and_unit, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", value);
    add(measured_, item_and_unit, text);
  }

  void print() const {
    std::printf("{\"observed\": {%s}, \"measured\": {%s}}\n", observed_.c_str(), measured_.c_str());
  }

 private:
  static void add(std::string& object, const std::string& key, const std::string& value) {
    object += (object.empty() ? "\"" : ", \"") + key + "\": " + value;
  }

  std::string observed_;
  std::string measured_;
};

}  // namespace probe
