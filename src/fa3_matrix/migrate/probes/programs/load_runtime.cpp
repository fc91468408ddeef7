// Loads the run-time library by name, as programs do that are not linked to it. Needs no device.
#include <string>

#include "probe.h"

namespace {

std::string folder(const char* path) {
  const std::string text = path;
  return text.substr(0, text.rfind('/'));
}

// Whether a library is the one that lies beside this program; another may be on the machine.
bool beside(void* function, const char* program) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && folder(info.dli_fname) == folder(program);
}

}  // namespace

int main(int, char** arguments) {
  probe::Record record;
  for (const char* name : {"libcudart.so.12", "libcudart.so.13", "libcudart.so"}) {
    void* const library = dlopen(name, RTLD_NOW);
    if (library == nullptr) {
      record.observe(name, "is not found");
      continue;
    }
    void* const get = dlsym(library, "cudaRuntimeGetVersion");
    if (get == nullptr) probe::cannot_run(std::string(name) + " has no cudaRuntimeGetVersion");
    int version = 0;
    reinterpret_cast<decltype(&cudaRuntimeGetVersion)>(get)(&version);
    record.observe(name, beside(get, arguments[0]) ? "opens" : "opens another one of this machine's");
    record.measure(std::string("version of ") + name, version);
  }
  record.print();
}
