#include "process_usage.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace oncebox::bench {

namespace {

std::chrono::microseconds to_microseconds(const timeval& time) {
  return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
}

/// The number behind a name in /proc/self/status.
double status_value(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name + ":")) continue;
    double value = 0;
    std::istringstream(line.substr(name.size() + 1)) >> value;
    return value;
  }
  return 0;
}

}  // namespace

ProcessUsage ProcessUsage::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return {.processor = to_microseconds(usage.ru_utime) + to_microseconds(usage.ru_stime),
          .wake_ups = static_cast<std::size_t>(usage.ru_nvcsw),
          .resident_mebibytes = status_value("VmRSS") / 1'024,
          .threads = static_cast<std::size_t>(status_value("Threads")),
          .open_files = static_cast<std::size_t>(std::distance(begin(files), end(files)))};
}

void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace oncebox::bench
