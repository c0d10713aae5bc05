#include "wrk.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace oncebox::bench {

Load run_wrk(const WrkRun& run) {
  const std::string command =
      fmt::format("wrk -t{} -c{} -d{}s -s '{}' http://127.0.0.1:{}", run.threads, run.connections,
                  run.seconds, run.script, run.port);
  const auto close = [](FILE* pipe) { pclose(pipe); };
  std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (!pipe) throw std::runtime_error("cannot run wrk");
  std::string printed;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) printed += line.data();

  Load load;
  long failed = 0;
  const std::size_t found = printed.find("rate=");
  if (found == std::string::npos ||
      std::sscanf(printed.c_str() + found, "rate=%lf p50=%lf p99=%lf failed=%ld", &load.rate,
                  &load.p50_us, &load.p99_us, &failed) != 4) {
    throw std::runtime_error("wrk failed: " + printed);
  }
  if (failed != 0) throw std::runtime_error(fmt::format("{} requests failed", failed));
  return load;
}

}  // namespace oncebox::bench
