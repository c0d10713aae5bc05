#include "oncebox/worker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string>

#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

WorkerName name_of(pid_t process) {
  // Room for the number of the process behind it.
  constexpr std::size_t kMaxHostBytes = kMaxWorkerNameCodePoints - 12;
  std::array<char, 256> buffer{};
  const bool is_known = ::gethostname(buffer.data(), buffer.size() - 1) == 0 && buffer[0] != 0;
  const std::string host = clip_text(is_known ? buffer.data() : "localhost", kMaxHostBytes);
  return fmt::format("{}:{}", host, process);
}

}  // namespace

// Every claim of a worker without a name asks for it.
WorkerName this_process() {
  static const pid_t first = ::getpid();
  static const WorkerName name = name_of(first);
  const pid_t process = ::getpid();
  return process == first ? name : name_of(process);  // another one after a fork
}

}  // namespace oncebox
