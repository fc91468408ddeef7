// The time between events: of one that is pending or was never recorded, and after other work has failed.
#include <chrono>
#include <thread>

#include "kernels.h"
#include "probe.h"

int main() {
  probe::require_device();
  probe::load_kernels();
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t start;
  cudaEvent_t end;
  cudaEvent_t never;
  for (cudaEvent_t* event : {&start, &end, &never}) REQUIRE(cudaEventCreate(event));
  float elapsed = 0;
  probe::Record record;
  const auto observe = [&](const std::string& item, cudaEvent_t last) {
    record.observe("cuEventElapsedTime, " + item, probe::name_of(DRIVER(cuEventElapsedTime)(&elapsed, start, last)));
    record.observe("cudaEventElapsedTime, " + item, probe::name_of(cudaEventElapsedTime(&elapsed, start, last)));
    cudaGetLastError();
  };
  record.observe("symbol behind cuEventElapsedTime", PROBE_TEXT(cuEventElapsedTime));

  REQUIRE(cudaEventRecord(start, stream));
  probe::keep_busy(stream);
  REQUIRE(cudaGetLastError());
  REQUIRE(cudaEventRecord(end, stream));
  observe("pending event", end);
  observe("event that was not recorded", never);
  REQUIRE(cudaStreamSynchronize(stream));
  observe("completed events", end);

  probe::fail(stream);
  // Not cudaStreamSynchronize, which would be the one to report the failure.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  observe("completed events, a kernel failed since", end);
  record.print();
}
