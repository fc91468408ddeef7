// The host library's one exception; the C interface turns it into a status and a message.
#pragma once

#include <sstream>
#include <string>
#include <utility>

#include "host/c_api.h"

namespace fa3 {

struct Error {
  Fa3Status status;
  std::string message;
};

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

template <typename... Parts>
[[noreturn]] void fail(Fa3Status status, const Parts&... parts) {
  throw Error{status, concat(parts...)};
}

// "9.0" of 90.
inline std::string capability_text(int32_t capability) {
  return concat(capability / 10, ".", capability % 10);
}

}  // namespace fa3
