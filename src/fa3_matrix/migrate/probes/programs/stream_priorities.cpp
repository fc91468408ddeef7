// The range of priorities, and what becomes of one outside of it.
#include "probe.h"

int main() {
  probe::require_device();
  int least = 0;
  int greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  probe::Record record;
  record.observe("range, least to greatest", std::to_string(least) + " to " + std::to_string(greatest));

  struct Case {
    const char* name;
    int asked;
  };
  for (const Case& one : {Case{"one above the greatest", greatest - 1}, Case{"one below the least", least + 1}}) {
    cudaStream_t stream = nullptr;
    const cudaError_t error = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, one.asked);
    std::string answer = probe::name_of(error);
    if (error == cudaSuccess) {
      int priority = 0;
      REQUIRE(cudaStreamGetPriority(stream, &priority));
      answer += ", the stream has " + std::to_string(priority);
    }
    record.observe(one.name, answer);
  }
  record.print();
}
