#include "oncebox/prometheus/process_metrics.hpp"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

namespace oncebox::metrics {

namespace {

template <class Builder>
auto& only_one(Builder builder, const char* name, const char* help,
               prometheus::Registry& registry) {
  return builder.Name(name).Help(help).Register(registry).Add({});
}

/// The fields of /proc/self/stat that stand behind the program's name, which may have spaces.
struct ProcessStat {
  double threads = 0;
  double started_ticks = 0;  ///< after the machine's start
};

std::optional<ProcessStat> read_stat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kThreads = 18;  // counted after the name, from 1
  constexpr int kStarted = 20;
  ProcessStat stat;
  std::string field;
  for (int place = 1; place <= kStarted && fields >> field; ++place) {
    if (place == kThreads) stat.threads = std::stod(field);
    if (place == kStarted) stat.started_ticks = std::stod(field);
  }
  return stat;
}

double cpu_seconds() {
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// Seconds since 1970, as for every process: the machine's start and the ticks since.
double started_at() {
  std::ifstream file("/proc/stat");
  std::string word;
  double booted = 0;
  while (file >> word) {
    if (word == "btime" && file >> booted) break;
  }
  const auto stat = read_stat();
  return stat ? booted + stat->started_ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) : booted;
}

std::optional<std::ptrdiff_t> count_open_fds() {
  std::error_code failure;
  std::filesystem::directory_iterator folder("/proc/self/fd", failure);
  if (failure) return {};
  std::ptrdiff_t count = -1;  // the one that reads the folder
  for (const std::filesystem::directory_iterator end; folder != end; folder.increment(failure)) {
    if (failure) return {};
    ++count;
  }
  return count;
}

}  // namespace

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry)
    : cpu_seconds_(only_one(prometheus::BuildCounter(), "process_cpu_seconds_total",
                            "Time that the process has spent on processors.", registry)),
      resident_bytes_(only_one(prometheus::BuildGauge(), "process_resident_memory_bytes",
                               "Memory of the process that is in RAM.", registry)),
      virtual_bytes_(only_one(prometheus::BuildGauge(), "process_virtual_memory_bytes",
                              "Addresses that the process has reserved.", registry)),
      open_fds_(only_one(prometheus::BuildGauge(), "process_open_fds",
                         "Open file descriptors of the process.", registry)),
      max_fds_(only_one(prometheus::BuildGauge(), "process_max_fds",
                        "How many file descriptors the process may open.", registry)),
      threads_(only_one(prometheus::BuildGauge(), "process_threads", "Threads of the process.",
                        registry)) {
  only_one(prometheus::BuildGauge(), "process_start_time_seconds",
           "When the process started, in seconds since 1970.", registry)
      .Set(started_at());
  update();
}

void ProcessMetrics::update() {
  const detail::Lock lock(mutex_);
  cpu_seconds_.Increment(cpu_seconds() - cpu_seconds_.Value());
  std::ifstream memory("/proc/self/statm");
  if (double pages = 0, resident_pages = 0; memory >> pages >> resident_pages) {
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    virtual_bytes_.Set(pages * page_bytes);
    resident_bytes_.Set(resident_pages * page_bytes);
  }
  if (const auto count = count_open_fds()) open_fds_.Set(static_cast<double>(*count));
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    max_fds_.Set(static_cast<double>(limit.rlim_cur));
  }
  if (const auto stat = read_stat()) threads_.Set(stat->threads);
}

}  // namespace oncebox::metrics
