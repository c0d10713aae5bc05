#include "pipe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "oncebox/error.hpp"

namespace oncebox::app {

void refuse_start(std::string_view what, int error) {
  throw Error(ErrorCode::unavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

detail::Descriptor moved_up(int descriptor) {
  if (descriptor > kHighestOfChild) return detail::Descriptor(descriptor);
  const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, kHighestOfChild + 1);
  close(descriptor);
  if (higher < 0) refuse_start("no more files can be opened", errno);
  return detail::Descriptor(higher);
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) refuse_start("no pipe can be made", errno);
  return {moved_up(ends[0]), moved_up(ends[1])};
}

}  // namespace oncebox::app
